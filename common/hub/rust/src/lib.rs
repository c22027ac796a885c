//! Hugging Face's tokenizers, chat templates and file checks behind the C functions of `../../ffi.h`.
//!
//! `border` holds what crosses the line and the guard that turns errors and panics into statuses;
//! each other module is one kind of file.

mod border;
mod chat;
mod tensors;
mod text;
mod tokens;
