//! Tokenizers, chat templates, grammars and safetensors checks behind the C functions of `../../ffi.h`.
//!
//! `boundary` has the types of the C interface and the guard that turns errors and panics into
//! statuses. Each other module handles one kind of file.

mod boundary;
mod chat;
mod grammar;
mod limits;
mod masks;
mod tensors;
mod text;
mod tokens;
