//! Tokenizers, chat templates, grammars and safetensors checks behind the C functions of `../../ffi.h`.
//!
//! `boundary` has the types of the C interface and the guard that turns errors and panics into
//! statuses. Each other module handles one kind of file.

// For budget.rs. CMake allows this feature to this crate alone, also for a stable compiler.
#![feature(alloc_error_hook)]

mod boundary;
mod budget;
mod chat;
mod grammar;
mod grammar_calls;
mod limits;
mod local_time;
mod masks;
mod python_methods;
mod python_text;
mod schema;
mod template_source;
mod tensors;
mod text;
mod tokens;
