//! Grammars that limit which tokens may follow each other: JSON schemas, regular expressions and
//! Lark grammars, compiled by llguidance.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use llguidance::api::{GrammarWithLexer, ParserLimits, StopReason, TopLevelGrammar};
use llguidance::derivre::NextByte;
use llguidance::earley::Parser;
use llguidance::earley::lexerspec::LexemeSpec;
use llguidance::toktrie::{
    ApproximateTokEnv, InferenceCapabilities, Recognizer, SimpleVob, TokEnv, TokRxInfo, TokTrie,
};
use llguidance::{ParserFactory, TokenParser, panic_utils};
use serde_json::{Value, json};

use crate::boundary::{Code, Failure};
use crate::budget::{self, Cancellation, Limits, Overrun};
use crate::limits::{check_bounds, has_unsupported_attributes};
use crate::masks::{Masks, Vocabulary};
use crate::{schema, tokens};

/// Maximum memory for the states of a lexer: about this many times 2 KiB.
const MAX_LEXER_STATES: usize = 15_000;
const MAX_GRAMMAR_SIZE: usize = 200_000;
/// Work on the expressions of the lexemes while a grammar is compiled.
const COMPILER_FUEL: u64 = 500_000;
/// The ways to read a text so far, and those that are found for one mask. The time for a byte grows
/// with the square of the former. Grammars that are not ambiguous have few.
const MAX_WAYS: usize = 200;
const MAX_MASK_WAYS: usize = 5_000;
/// What a grammar may take while it is compiled, and keep.
const MAX_COMPILER_BYTES: usize = 32 << 20;
const MAX_COMPILER_TIME: Duration = Duration::from_secs(1);
/// What the state of one answer may take beyond the compiled grammar.
const MAX_STATE_BYTES: usize = 32 << 20;
/// The parsers of grammars call themselves once per level, and the largest grammar has 30,000 levels.
const COMPILER_STACK: usize = 64 << 20;
/// Linux has a niceness for each thread.
const COMPILER_NICENESS: i32 = 10;
/// Forced text is a draft. A grammar can force gigabytes, and each byte of one can take long.
const MAX_FORCED_BYTES: usize = 256;
const MAX_FORCED_TIME: Duration = Duration::from_millis(1);
/// The longest message that a compiler error may have.
const MAX_MESSAGE: usize = 400;

pub struct Compiler {
    factory: ParserFactory,
    vocabulary: Arc<Vocabulary>,
    ends: Arc<[u32]>,
    words: usize,
}

/// What a text has matched so far.
pub struct State {
    parser: TokenParser,
    masks: Arc<Masks>,
    ends: Arc<[u32]>,
    pub words: usize,
    /// The memory of the compiled grammar, and what this state has taken since.
    bytes: usize,
    grown: usize,
}

/// A token that no grammar can produce: llguidance takes this byte for the start of a special token.
fn special(text: &str) -> Vec<u8> {
    let mut bytes = vec![TokTrie::SPECIAL_TOKEN_MARKER];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The first line of an error, without what llguidance appends for debugging.
fn failure(code: Code, error: impl std::fmt::Display) -> Failure {
    let text = error.to_string();
    let end = text.find("\n<").unwrap_or(text.len()).min(MAX_MESSAGE);
    let end = (0..=end).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    Failure { code, message: text[..end].trim_end().to_owned() }
}

/// Panics become errors. llguidance's panic hook would look up the symbols of the stack for each, which
/// takes 0.1 s.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = panic_utils::catch_unwind(|| Ok(())); // Installs that hook.
        std::panic::set_hook(Box::new(|_| {}));
    });
}

impl Compiler {
    pub fn new(
        tokenizer: &tokens::Handle,
        vocabulary: u32,
        ends: &[u32],
    ) -> Result<Compiler, Failure> {
        let first = ends.first().ok_or_else(|| Failure::invalid("the model has no end token"))?;
        let words: Vec<Vec<u8>> = (0..vocabulary)
            .map(|id| match (tokenizer.continuation(id), tokenizer.token(id)) {
                (bytes, Some(token)) if bytes.is_empty() || ends.contains(&id) => special(&token),
                (bytes, _) => bytes.to_vec(),
            })
            .collect();
        let trie = TokTrie::from(&TokRxInfo::new(vocabulary, *first), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &[])
            .map_err(Failure::invalid)?;
        factory.quiet();
        *factory.limits_mut() = ParserLimits {
            max_lexer_states: MAX_LEXER_STATES,
            max_grammar_size: MAX_GRAMMAR_SIZE,
            initial_lexer_fuel: COMPILER_FUEL,
            max_items_in_row: MAX_WAYS,
            step_max_items: MAX_MASK_WAYS,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        silence_panics();
        let words = (vocabulary as usize).div_ceil(32);
        let vocabulary = Arc::new(Vocabulary::new(&environment));
        Ok(Compiler { factory, vocabulary, ends: ends.into(), words })
    }

    fn compile(&self, grammar: TopLevelGrammar) -> Result<State, Failure> {
        let mut parser = self
            .factory
            .create_parser(grammar)
            .map_err(|error| failure(Code::InvalidArgument, error))?;
        parser.start_without_prompt();
        let grammar = parser.parser.grammar();
        if has_unsupported_attributes(grammar) {
            return Err(Failure::invalid(
                "capture, lazy, max_tokens, stop, suffix and temperature are not supported",
            ));
        }
        let lexer = grammar.lexer_spec();
        let is_end_token =
            |lexeme: &LexemeSpec| self.ends.iter().any(|e| lexeme.contains_token(*e));
        if lexer.lexemes.iter().any(is_end_token) {
            return Err(Failure::invalid("a token that ends the answer cannot be a part of it"));
        }
        let masks = Masks::new(&self.vocabulary);
        let mut state = State::new(parser, masks, self.ends.clone(), self.words);
        // A grammar that matches nothing fails here, not in the middle of an answer.
        match state.mask() {
            Ok(_) => Ok(state),
            Err(_) if state.parser.stop_reason() == StopReason::NoExtensionBias => {
                Err(Failure::invalid("no text matches it"))
            }
            Err(Failure { message, .. }) => Err(Failure::invalid(message)),
        }
    }
}

/// Runs `work` on a thread with COMPILER_STACK, which leaves the cores to others when they need them.
pub fn with_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let polite_work = || {
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, COMPILER_NICENESS) };
            work()
        };
        let thread = std::thread::Builder::new()
            .stack_size(COMPILER_STACK)
            .spawn_scoped(scope, polite_work)
            .map_err(|error| failure(Code::ResourceExhausted, error))?;
        thread.join().map_err(|_| Failure::invalid("llguidance cannot compile it"))
    })
}

/// A schema of documents like those of Python's `json.dumps`, unless it says otherwise.
fn checked_schema(text: &str) -> Result<Value, Failure> {
    let mut schema: Value = serde_json::from_str(text).map_err(Failure::invalid)?;
    schema::prepare(&mut schema)?;
    check_bounds(&schema)?;
    if let Value::Object(fields) = &mut schema {
        fields.entry("x-guidance").or_insert_with(
            || json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": "}),
        );
    }
    Ok(schema)
}

/// A Lark grammar and further rules that are JSON schemas.
#[derive(serde::Deserialize)]
struct SchemaGrammar {
    grammar: String,
    schemas: BTreeMap<String, String>,
}

fn schema_grammar(text: &str) -> Result<TopLevelGrammar, Failure> {
    let SchemaGrammar { mut grammar, schemas } =
        serde_json::from_str(text).map_err(Failure::invalid)?;
    if grammar.contains("%json") {
        return Err(Failure::invalid("%json is not supported here"));
    }
    for (name, schema) in schemas {
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(Failure::invalid(
                "a rule has a name with other characters than a-z, 0-9, _",
            ));
        }
        let schema = checked_schema(&schema).map_err(|Failure { code, message }| Failure {
            code,
            message: format!("{name}: {message}"),
        })?;
        grammar += &format!("\n{name}: %json {schema}\n");
    }
    Ok(TopLevelGrammar::from_lark(grammar))
}

fn grammar_of(kind: u32, text: &str) -> Result<TopLevelGrammar, Failure> {
    match kind {
        0 => Ok(TopLevelGrammar::from_json_schema(checked_schema(text)?)),
        1 => Ok(TopLevelGrammar::from_grammar(GrammarWithLexer::from_regex(text))),
        2 if text.contains("%json") => Err(Failure::invalid("%json is not supported here")),
        2 => Ok(TopLevelGrammar::from_lark(text.to_owned())),
        3 => schema_grammar(text),
        _ => Err(Failure::invalid(format!("there is no grammar of kind {kind}"))),
    }
}

impl State {
    fn new(mut parser: TokenParser, masks: Masks, ends: Arc<[u32]>, words: usize) -> State {
        let masks = Arc::new(masks);
        parser.bias_computer = masks.clone();
        State { parser, masks, ends, words, bytes: 0, grown: 0 }
    }

    /// Runs `work` on this state within `time` and MAX_STATE_BYTES. After DEADLINE_EXCEEDED or
    /// RESOURCE_EXHAUSTED, the state must not be used.
    pub fn limited<T>(
        &mut self,
        time: Duration,
        work: impl FnOnce(&mut State) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let bytes = MAX_STATE_BYTES.saturating_sub(self.grown);
        let limits = Limits { bytes, time, cancellation: None };
        match budget::run(limits, || work(self)) {
            Ok((result, grown)) => {
                self.grown = self.grown.saturating_add_signed(grown);
                result
            }
            Err(Overrun::Memory) => Err(Failure {
                code: Code::ResourceExhausted,
                message: format!("an answer takes more than {} MiB", MAX_STATE_BYTES >> 20),
            }),
            Err(_) => Err(Failure {
                code: Code::DeadlineExceeded,
                message: format!("the next step takes more than {time:?}"),
            }),
        }
    }

    /// The memory that this state and the compiled grammar take.
    pub fn bytes(&self) -> usize {
        self.bytes + self.grown
    }

    /// The same state, independent of this one.
    pub fn copy(&self) -> State {
        let masks = self.masks.copy();
        let copy = State::new(self.parser.deep_clone(), masks, self.ends.clone(), self.words);
        State { bytes: self.bytes, grown: self.grown, ..copy }
    }

    /// An end token is the only one that may follow.
    pub fn complete(&self) -> bool {
        self.parser.stopped() && self.parser.stop_reason().is_ok()
    }

    fn mask(&mut self) -> Result<SimpleVob, Failure> {
        if self.complete() {
            let trie = self.parser.token_env.tok_trie();
            return Ok(trie.singleton_token_set(trie.eos_token()));
        }
        let parser = &mut self.parser;
        panic_utils::catch_unwind(AssertUnwindSafe(|| parser.compute_mask()))
            .map_err(|e| failure(Code::ResourceExhausted, e))
    }

    /// Sets the bits of the tokens that may follow.
    pub fn allowed(&mut self, bits: &mut [u32]) -> Result<(), Failure> {
        let mask = self.mask()?;
        bits.copy_from_slice(&mask.as_slice()[..bits.len()]);
        if self.ends.first().is_some_and(|end| mask.is_allowed(*end)) {
            for end in self.ends.iter() {
                bits[*end as usize / 32] |= 1 << (*end % 32);
            }
        }
        Ok(())
    }

    /// The characters that must follow, or the first of them. Empty inside a character.
    pub fn forced(&mut self) -> Vec<u8> {
        // A copy of the parser takes time, and mostly nothing is forced.
        let deadline = Instant::now() + MAX_FORCED_TIME;
        let mut next = forced_byte(&mut self.parser.parser, deadline);
        if next.is_none() {
            return Vec::new();
        }
        // To find more bytes moves the parser forward.
        let mut parser = self.parser.parser.clone();
        let mut bytes = Vec::new();
        while let Some(byte) = next {
            // The parser looks at the token only if the byte is the whole of it, which no end token is.
            if parser.apply_token(&[byte], self.ends[0]).is_err() {
                break;
            }
            bytes.push(byte);
            if bytes.len() >= MAX_FORCED_BYTES || Instant::now() >= deadline {
                break;
            }
            next = forced_byte(&mut parser, deadline);
        }
        if let Err(error) = std::str::from_utf8(&bytes) {
            bytes.truncate(error.valid_up_to());
        }
        bytes
    }

    pub fn push(&mut self, token: u32) -> Result<(), Failure> {
        let parser = &mut self.parser;
        let allowed = panic_utils::catch_unwind(AssertUnwindSafe(|| {
            let allowed = parser.validate_token(token)?;
            if allowed {
                parser.consume_token(token)?;
                parser.check_stop()?;
            }
            Ok(allowed)
        }))
        .map_err(|e| failure(Code::ResourceExhausted, e))?;
        if allowed {
            return Ok(());
        }
        Err(Failure::invalid(format!("the grammar does not allow token {token}")))
    }

    pub fn pop(&mut self, count: usize) -> Result<(), Failure> {
        let parser = &mut self.parser;
        panic_utils::catch_unwind(AssertUnwindSafe(|| parser.rollback(count)))
            .map_err(|e| failure(Code::Internal, e))
    }
}

/// The next byte, if no other may follow and the text may not end here. None after `deadline`.
fn forced_byte(parser: &mut Parser, deadline: Instant) -> Option<u8> {
    if parser.is_accepting() {
        return None;
    }
    parser
        .with_recognizer(|recognizer| {
            let state = recognizer.lexer_state();
            let next = recognizer.lexer_mut().next_byte(state);
            if let NextByte::ForcedByte(byte) = next {
                return Some(byte);
            }
            recognizer.trie_started("forced_byte");
            let mut is_late = false;
            let mut allowed = (0..=u8::MAX).filter(|byte| {
                is_late = is_late || Instant::now() >= deadline;
                !is_late && recognizer.byte_allowed(*byte)
            });
            let only = allowed.next().filter(|_| allowed.next().is_none());
            recognizer.trie_finished();
            only.filter(|_| !is_late)
        })
        .filter(|byte| *byte != TokTrie::SPECIAL_TOKEN_MARKER)
}

/// Compiles a grammar within the limits of memory and time.
pub fn compile(
    compiler: &Compiler,
    kind: u32,
    text: &str,
    cancellation: Option<Cancellation>,
) -> Result<State, Failure> {
    let limits = Limits { bytes: MAX_COMPILER_BYTES, time: MAX_COMPILER_TIME, cancellation };
    match budget::run(limits, || compiler.compile(grammar_of(kind, text)?)) {
        Ok((Ok(state), grown)) => Ok(State { bytes: grown.max(0) as usize, ..state }),
        Ok((Err(failure), _)) => Err(failure),
        Err(Overrun::Memory) => Err(Failure::invalid(format!(
            "takes more than {} MiB to compile; simplify it",
            MAX_COMPILER_BYTES >> 20
        ))),
        Err(Overrun::Time) => Err(Failure::invalid(format!(
            "takes more than {MAX_COMPILER_TIME:?} to compile; simplify it"
        ))),
        Err(Overrun::Canceled) => {
            Err(Failure { code: Code::Cancelled, message: "no longer needed".to_owned() })
        }
    }
}
