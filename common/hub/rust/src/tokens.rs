//! `tokenizer.json`: encode, decode, and the bytes that each token adds to a text.

use tokenizers::{DecoderWrapper, Tokenizer};

use crate::boundary::{Bytes, Code, Failure, Ids, Status, Text, borrow, free_handle, guard};

/// Far above any published vocabulary.
const MAX_VOCABULARY: u32 = 1 << 24;

/// How the text of a token represents raw bytes.
enum Spelling {
    /// GPT-2's table: each byte is a printable character.
    ByteLevel,
    /// A token like `<0x0A>` is a byte. Other tokens are plain text.
    ByteFallback,
    Plain,
}

pub struct Handle {
    tokenizer: Tokenizer,
    spelling: Spelling,
    vocabulary: u32,
    /// By id: the bytes that the token adds to a text. Empty for special tokens.
    continuations: Vec<Vec<u8>>,
}

fn spelling_of(decoder: Option<&DecoderWrapper>) -> Spelling {
    match decoder {
        Some(DecoderWrapper::ByteLevel(_)) => Spelling::ByteLevel,
        Some(DecoderWrapper::ByteFallback(_)) => Spelling::ByteFallback,
        Some(DecoderWrapper::Sequence(sequence)) => sequence
            .get_decoders()
            .iter()
            .map(|inner| spelling_of(Some(inner)))
            .find(|spelling| !matches!(spelling, Spelling::Plain))
            .unwrap_or(Spelling::Plain),
        _ => Spelling::Plain,
    }
}

/// The byte that a character of GPT-2's table represents. A printable Latin-1 character represents
/// its own code. The characters from U+0100 on represent the other 68 bytes, in order.
fn byte_level(character: char) -> Option<u8> {
    let code = character as u32;
    match character {
        '!'..='~' | '\u{A1}'..='\u{AC}' | '\u{AE}'..='\u{FF}' => Some(code as u8),
        '\u{100}'..='\u{120}' => Some((code - 0x100) as u8),
        '\u{121}'..='\u{142}' => Some((code - 0x121 + 0x7F) as u8),
        '\u{143}' => Some(0xAD),
        _ => None,
    }
}

fn byte_fallback(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() == 2 { u8::from_str_radix(digits, 16).ok() } else { None }
}

/// The largest id plus one. The limit prevents a huge table if a file contains an absurd id.
fn vocabulary_of(tokenizer: &Tokenizer) -> Result<u32, Failure> {
    match tokenizer.get_vocab(true).into_values().max() {
        None => Ok(0),
        Some(id) if id < MAX_VOCABULARY => Ok(id + 1),
        Some(id) => Err(Failure::invalid(format!(
            "token id {id} is not below the limit of {MAX_VOCABULARY}"
        ))),
    }
}

impl Handle {
    fn new(json: &[u8]) -> Result<Handle, Failure> {
        let mut tokenizer = Tokenizer::from_bytes(json).map_err(Failure::invalid)?;
        // A file may contain padding and truncation settings from training. Serving needs neither.
        tokenizer.with_truncation(None).map_err(Failure::invalid)?;
        tokenizer.with_padding(None);
        let vocabulary = vocabulary_of(&tokenizer)?;
        let spelling = spelling_of(tokenizer.get_decoder());
        let mut handle = Handle { tokenizer, spelling, vocabulary, continuations: Vec::new() };
        handle.continuations =
            (0..vocabulary).map(|id| handle.find_continuation(id)).collect::<Result<_, _>>()?;
        Ok(handle)
    }

    /// The bytes that `id` adds when it continues a text. They need not be UTF-8 by themselves.
    /// Empty for a special token and for an id without a token.
    pub fn continuation(&self, id: u32) -> &[u8] {
        self.continuations.get(id as usize).map_or(&[], Vec::as_slice)
    }

    /// The text of `id` as the file spells it. None if there is no such token.
    pub fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, Failure> {
        self.tokenizer.decode(ids, skip_special).map_err(Failure::invalid)
    }

    /// Decodes the token after itself, because decoders trim the start of a text.
    fn decoded_continuation(&self, id: u32) -> Result<Vec<u8>, Failure> {
        let once = self.decode(&[id], false)?;
        let twice = self.decode(&[id, id], false)?;
        Ok(twice.strip_prefix(once.as_str()).unwrap_or(once.as_str()).as_bytes().to_vec())
    }

    fn bytes_of(&self, id: u32, token: &str) -> Result<Vec<u8>, Failure> {
        match self.spelling {
            // Like the decoder: a token with a character outside the table is plain text.
            Spelling::ByteLevel => Ok(token
                .chars()
                .map(byte_level)
                .collect::<Option<Vec<u8>>>()
                .unwrap_or_else(|| token.as_bytes().to_vec())),
            Spelling::ByteFallback => match byte_fallback(token) {
                Some(byte) => Ok(vec![byte]),
                None => self.decoded_continuation(id),
            },
            Spelling::Plain => self.decoded_continuation(id),
        }
    }

    /// Bytes of the longest text that one token represents.
    fn longest_token(&self) -> u32 {
        let bytes = |id: u32| match self.continuation(id).len() {
            0 => self.tokenizer.id_to_token(id).map_or(0, |token| token.len()),
            bytes => bytes,
        };
        (0..self.vocabulary).map(bytes).max().unwrap_or(0) as u32
    }

    /// The special token of `text` with the lowest id. Empty if there is none.
    fn special_in(&self, text: &str) -> String {
        let tokens = self.tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        tokens
            .iter()
            .filter(|(_, token)| token.special && text.contains(&token.content))
            .min_by_key(|(id, _)| **id)
            .map_or(String::new(), |(_, token)| token.content.clone())
    }

    fn find_continuation(&self, id: u32) -> Result<Vec<u8>, Failure> {
        match self.tokenizer.id_to_token(id) {
            Some(token) if !self.tokenizer.get_added_vocabulary().is_special_token(&token) => {
                self.bytes_of(id, &token)
            }
            _ => Ok(Vec::new()),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_new(json: Bytes, out: *mut *mut Handle) -> Status {
    guard(|| unsafe {
        *out = Box::into_raw(Box::new(Handle::new(json.as_slice())?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_free(handle: *mut Handle) {
    unsafe { free_handle(handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_vocabulary(
    handle: *const Handle,
    out: *mut u32,
) -> Status {
    guard(|| unsafe {
        *out = (*handle).vocabulary;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_longest_token(
    handle: *const Handle,
    out: *mut u32,
) -> Status {
    guard(|| unsafe {
        *out = (*handle).longest_token();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_token_bytes(
    handle: *const Handle,
    id: u32,
) -> Bytes {
    unsafe { (*handle).continuation(id) }.into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_encode(
    handle: *const Handle,
    text: Bytes,
    add_special: bool,
    out: *mut Ids,
) -> Status {
    guard(|| unsafe {
        let tokenizer = &(*handle).tokenizer;
        let encoding =
            tokenizer.encode_fast(text.as_text()?, add_special).map_err(Failure::invalid)?;
        *out = encoding.get_ids().to_vec().into();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_decode(
    handle: *const Handle,
    ids: *const u32,
    count: usize,
    skip_special: bool,
    out: *mut Text,
) -> Status {
    guard(|| unsafe {
        *out = (*handle).decode(borrow(ids, count), skip_special)?.into_bytes().into();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_special_in(
    handle: *const Handle,
    text: Bytes,
    out: *mut Text,
) -> Status {
    guard(|| unsafe {
        *out = (*handle).special_in(text.as_text()?).into_bytes().into();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_tokenizer_find(
    handle: *const Handle,
    token: Bytes,
    out: *mut u32,
) -> Status {
    guard(|| unsafe {
        let token = token.as_text()?;
        *out = (*handle).tokenizer.token_to_id(token).ok_or_else(|| Failure {
            code: Code::NotFound,
            message: format!("no token has the text {token:?}"),
        })?;
        Ok(())
    })
}
