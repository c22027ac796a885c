//! The C functions of grammars and of the states of texts (`../../ffi.h`).

use std::time::Duration;

use crate::boundary::{Bytes, Status, Text, borrow, free_handle, guard};
use crate::budget::Cancellation;
use crate::grammar::{Compiler, State, compile, with_large_stack};
use crate::tokens;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_compiler_new(
    tokenizer: *const tokens::Handle,
    vocabulary: u32,
    ends: *const u32,
    end_count: usize,
    out: *mut *mut Compiler,
) -> Status {
    guard(|| unsafe {
        let compiler = Compiler::new(&*tokenizer, vocabulary, borrow(ends, end_count))?;
        *out = Box::into_raw(Box::new(compiler));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_compiler_free(handle: *mut Compiler) {
    unsafe { free_handle(handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_compile(
    compiler: *const Compiler,
    kind: u32,
    text: Bytes,
    cancellation: Cancellation,
    out: *mut *mut State,
) -> Status {
    guard(|| unsafe {
        let (compiler, text) = (&*compiler, text.as_text()?);
        let cancellation = Some(cancellation).filter(|asked| !asked.context.is_null());
        let state = with_large_stack(|| compile(compiler, kind, text, cancellation))??;
        *out = Box::into_raw(Box::new(state));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_bytes(state: *const State) -> usize {
    unsafe { (*state).bytes() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_copy(
    state: *const State,
    out: *mut *mut State,
) -> Status {
    guard(|| unsafe {
        *out = Box::into_raw(Box::new((*state).copy()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_free(handle: *mut State) {
    unsafe { free_handle(handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_allowed(
    state: *mut State,
    nanoseconds: u64,
    bits: *mut u32,
) -> Status {
    guard(|| unsafe {
        let state = &mut *state;
        let bits = std::slice::from_raw_parts_mut(bits, state.words);
        state.limited(Duration::from_nanos(nanoseconds), |state| state.allowed(bits))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_forced(
    state: *mut State,
    out: *mut Text,
) -> Status {
    guard(|| unsafe {
        *out = (*state).forced().into();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_push(
    state: *mut State,
    nanoseconds: u64,
    token: u32,
) -> Status {
    guard(|| unsafe {
        (*state).limited(Duration::from_nanos(nanoseconds), |state| state.push(token))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_pop(state: *mut State, count: usize) -> Status {
    guard(|| unsafe { (*state).pop(count) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_grammar_state_complete(state: *const State) -> bool {
    unsafe { (*state).complete() }
}
