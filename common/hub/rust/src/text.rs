//! Incremental text: UTF-8 checks, and conversion of token ids to text while they arrive.
//! `DecodeStream` of the tokenizers crate has two problems, so this module does not use it. It
//! withholds text that ends in U+FFFD, so a token that is not UTF-8 blocks it forever. And it
//! returns nothing for an incomplete character at the end.

use crate::boundary::{Bytes, Text, borrow, free_handle};
use crate::tokens::Handle;

/// Replaces bytes that are not part of a character.
const REPLACEMENT: char = '\u{FFFD}';

pub struct Detokenizer {
    tokenizer: *const Handle,
    /// Between calls: the bytes of an incomplete character.
    held: Vec<u8>,
}

/// Moves the complete characters at the front of `bytes` to the end of `text`.
fn take_characters(bytes: &mut Vec<u8>, text: &mut String) {
    let mut rest = bytes.as_slice();
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, after) = rest.split_at(error.valid_up_to());
        text.push_str(&String::from_utf8_lossy(valid));
        rest = after;
        // None: more bytes may complete the character.
        let Some(length) = error.error_len() else {
            *bytes = rest.to_vec();
            return;
        };
        text.push(REPLACEMENT);
        rest = &rest[length..];
    }
    text.push_str(&String::from_utf8_lossy(rest));
    bytes.clear();
}

impl Detokenizer {
    fn push(&mut self, tokenizer: &Handle, ids: &[u32]) -> String {
        for id in ids {
            self.held.extend_from_slice(tokenizer.continuation(*id));
        }
        let mut text = String::new();
        take_characters(&mut self.held, &mut text);
        text
    }

    fn finish(&mut self) -> String {
        let incomplete = !self.held.is_empty();
        self.held.clear();
        if incomplete { REPLACEMENT.to_string() } else { String::new() }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_utf8_valid_up_to(text: Bytes) -> usize {
    let bytes = unsafe { text.as_slice() };
    std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_detokenizer_new(tokenizer: *const Handle) -> *mut Detokenizer {
    Box::into_raw(Box::new(Detokenizer { tokenizer, held: Vec::new() }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_detokenizer_free(handle: *mut Detokenizer) {
    unsafe { free_handle(handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_detokenizer_push(
    handle: *mut Detokenizer,
    ids: *const u32,
    count: usize,
) -> Text {
    let tokenizer = unsafe { &*(*handle).tokenizer };
    unsafe { (*handle).push(tokenizer, borrow(ids, count)) }.into_bytes().into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_detokenizer_finish(handle: *mut Detokenizer) -> Text {
    unsafe { (*handle).finish() }.into_bytes().into()
}
