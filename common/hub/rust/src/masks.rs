//! Which tokens may follow a text. The parser would try most tokens of the vocabulary in a string. Two
//! ways avoid this:
//!
//! - Most tokens are plain: words, without anything that JSON escapes in strings. Where all plain
//!   characters may follow, it is enough to know how many.
//! - Elsewhere, e.g. in a string with a pattern, the tokens that stay inside the lexeme depend only on
//!   the state of the lexer. They are kept for the next time. The others are tried again, because
//!   what may follow a lexeme depends on the text before it.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use llguidance::HashMap;
use llguidance::derivre::StateID;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use llguidance::toktrie::{Recognizer, SimpleVob, TokEnv, TokTrie, TokenId};

use crate::budget;

/// Tokens with more plain characters are tried one by one where strings have a limit.
const MAX_CHARACTERS: usize = 32;
/// The states of a lexer after some plain characters. With more, tokens are tried one by one.
const MAX_STATES: usize = 8;
/// Masks with fewer tokens are found quickly.
const LARGE_MASK: usize = 200;
/// The states of a lexer for which tokens are kept. Each takes the memory of a mask.
const MAX_KEPT: usize = 64;
/// The tokens that are tried again for a state.
const MAX_TRIED: usize = 4096;

const PLAIN_ASCII: [RangeInclusive<u8>; 3] = [b' '..=b'!', b'#'..=b'[', b']'..=b'~'];
/// The bytes of the other characters, which are all plain: the well-formed sequences of UTF-8.
const PLAIN_UTF8: [&[RangeInclusive<u8>]; 8] = [
    &[0xC2..=0xDF, 0x80..=0xBF],
    &[0xE0..=0xE0, 0xA0..=0xBF, 0x80..=0xBF],
    &[0xE1..=0xEC, 0x80..=0xBF, 0x80..=0xBF],
    &[0xED..=0xED, 0x80..=0x9F, 0x80..=0xBF],
    &[0xEE..=0xEF, 0x80..=0xBF, 0x80..=0xBF],
    &[0xF0..=0xF0, 0x90..=0xBF, 0x80..=0xBF, 0x80..=0xBF],
    &[0xF1..=0xF3, 0x80..=0xBF, 0x80..=0xBF, 0x80..=0xBF],
    &[0xF4..=0xF4, 0x80..=0x8F, 0x80..=0xBF, 0x80..=0xBF],
];

/// How many characters a plain token has. None for other tokens.
fn plain_characters(token: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(token).ok().filter(|text| !text.is_empty())?;
    let plain = |c: char| c >= ' ' && !matches!(c, '"' | '\\' | '\x7F');
    text.chars().all(plain).then(|| text.chars().count())
}

/// The tokens of a vocabulary.
pub struct Vocabulary {
    environment: TokEnv,
    /// Entry n has the plain tokens with at most n characters.
    up_to: Vec<SimpleVob>,
    plain: SimpleVob,
    /// Plain tokens with more than MAX_CHARACTERS.
    long: TokTrie,
    other: TokTrie,
    /// Special tokens are in no trie. A grammar names those that may follow, and llguidance adds them.
    all: TokTrie,
}

impl Vocabulary {
    pub fn new(environment: &TokEnv) -> Vocabulary {
        let trie = environment.tok_trie();
        let empty = trie.alloc_token_set();
        let (mut plain, mut long, mut other) = (empty.clone(), empty.clone(), empty.clone());
        let mut up_to = vec![empty; MAX_CHARACTERS + 1];
        for token in 0..trie.vocab_size() as u32 {
            let bytes = trie.token(token);
            let Some(characters) = plain_characters(bytes) else {
                if !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER) {
                    other.allow_token(token);
                }
                continue;
            };
            plain.allow_token(token);
            if characters > MAX_CHARACTERS {
                long.allow_token(token);
            }
            up_to.iter_mut().skip(characters).for_each(|tokens| tokens.allow_token(token));
        }
        let mut all = plain.clone();
        all.or(&other);
        let [long, other, all] = [long, other, all].map(|tokens| trie.filter(&tokens));
        Vocabulary { environment: environment.clone(), up_to, plain, long, other, all }
    }
}

/// Where the lexer is after one plain character more.
struct Step {
    states: Vec<StateID>,
    /// All plain characters may follow, and none of them ends a lexeme.
    all: bool,
    /// A lexeme may end here, so that the parser decides about other characters.
    may_end: bool,
}

/// The plain texts that may follow.
enum Room {
    /// All with at most this many characters, and no others.
    UpTo(usize),
    /// All with at most MAX_CHARACTERS, and perhaps others.
    Much,
    All,
    Unknown,
}

/// The tokens that may follow a state of the lexer.
struct Tokens {
    /// They stay inside the lexeme.
    inside: SimpleVob,
    /// A lexeme ends in them. The parser decides whether they may follow.
    tried: Vec<TokenId>,
}

#[derive(Clone)]
enum Kept {
    /// The mask was large. When the state returns, its tokens are kept.
    Seen,
    Tokens(Arc<Tokens>),
    /// There are more than MAX_TRIED to try.
    TooMany,
}

/// What is known about the states of a lexer.
#[derive(Clone, Default)]
struct States {
    steps: HashMap<StateID, Arc<Step>>,
    kept: HashMap<StateID, Kept>,
}

/// Computes the masks of one parser. A copy of a parser needs a copy of this.
pub struct Masks {
    vocabulary: Arc<Vocabulary>,
    states: Mutex<States>,
}

impl Masks {
    pub fn new(vocabulary: &Arc<Vocabulary>) -> Masks {
        Masks { vocabulary: vocabulary.clone(), states: Mutex::default() }
    }

    pub fn copy(&self) -> Masks {
        let states = self.states.lock().unwrap().clone();
        Masks { vocabulary: self.vocabulary.clone(), states: Mutex::new(states) }
    }

    fn room(&self, recognizer: &mut ParserRecognizer<'_>) -> Room {
        let mut states = vec![recognizer.lexer_state()];
        let mut all = true;
        for characters in 0..MAX_CHARACTERS {
            let mut next = Vec::new();
            let mut may_end = false;
            for state in &states {
                let step = self.step(recognizer, *state);
                all &= step.all;
                may_end |= step.may_end;
                add_states(&mut next, &step.states);
            }
            match (all, next.is_empty() && !may_end) {
                (false, true) => return Room::UpTo(characters),
                (false, false) => return Room::Unknown,
                _ if next == states => return Room::All,
                _ if next.len() > MAX_STATES => return Room::Unknown,
                _ => states = next,
            }
        }
        Room::Much
    }

    fn step(&self, recognizer: &mut ParserRecognizer<'_>, state: StateID) -> Arc<Step> {
        if let Some(step) = self.states.lock().unwrap().steps.get(&state) {
            return step.clone();
        }
        let step = Arc::new(find_step(recognizer, state));
        self.states.lock().unwrap().steps.insert(state, step.clone());
        step
    }

    /// Tries all tokens, or those that must be tried again.
    fn try_tokens(&self, recognizer: &mut ParserRecognizer<'_>, mask: &mut SimpleVob) {
        let state = recognizer.lexer_state();
        let mut kept = self.states.lock().unwrap().kept.get(&state).cloned();
        if matches!(kept, Some(Kept::Seen)) {
            kept = Some(self.keep(state, find_tokens(recognizer, &self.vocabulary.all)));
        }
        if let Some(Kept::Tokens(tokens)) = kept {
            mask.or(&tokens.inside);
            recognizer.trie_started("tokens");
            let can_follow = |token: &&TokenId| can_follow(recognizer, self.trie().token(**token));
            tokens.tried.iter().filter(can_follow).for_each(|token| mask.allow_token(*token));
            recognizer.trie_finished();
            return;
        }
        add_allowed(&self.vocabulary.all, recognizer, mask, &[]);
        if kept.is_none() && mask.num_set() >= LARGE_MASK {
            self.keep(state, Kept::Seen);
        }
    }

    fn keep(&self, state: StateID, what: Kept) -> Kept {
        let kept = &mut self.states.lock().unwrap().kept;
        if kept.len() >= MAX_KEPT && !kept.contains_key(&state) {
            kept.clear();
        }
        kept.insert(state, what.clone());
        what
    }
}

impl BiasComputer for Masks {
    fn compute_bias(&self, recognizer: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        let Vocabulary { up_to, plain, long, other, .. } = &*self.vocabulary;
        let mut mask = self.trie().alloc_token_set();
        if !start.is_empty() {
            add_allowed(&self.vocabulary.all, recognizer, &mut mask, start);
            return mask;
        }
        match self.room(recognizer) {
            Room::UpTo(characters) => mask.or(&up_to[characters]),
            Room::Much => {
                mask.or(&up_to[MAX_CHARACTERS]);
                add_allowed(long, recognizer, &mut mask, &[]);
            }
            Room::All => mask.or(plain),
            Room::Unknown => {
                self.try_tokens(recognizer, &mut mask);
                return mask;
            }
        }
        add_allowed(other, recognizer, &mut mask, &[]);
        mask
    }

    fn trie(&self) -> &TokTrie {
        self.vocabulary.environment.tok_trie()
    }
}

/// A recognizer whose work is limited (budget.rs): a byte of an ambiguous grammar can take 0.1 ms.
struct Limited<'a, 'b>(&'a mut ParserRecognizer<'b>);

impl Recognizer for Limited<'_, '_> {
    fn pop_bytes(&mut self, count: usize) {
        self.0.pop_bytes(count);
    }
    fn collapse(&mut self) {
        self.0.collapse();
    }
    fn trie_started(&mut self, label: &str) {
        self.0.trie_started(label);
    }
    fn trie_finished(&mut self) {
        self.0.trie_finished();
    }
    fn try_push_byte(&mut self, byte: u8) -> bool {
        budget::check();
        self.0.try_push_byte(byte)
    }
    fn save_stats(&mut self, nodes: usize) {
        self.0.save_stats(nodes);
    }
}

/// Adds the tokens of `trie` that may follow.
fn add_allowed(
    trie: &TokTrie,
    recognizer: &mut ParserRecognizer<'_>,
    mask: &mut SimpleVob,
    start: &[u8],
) {
    trie.add_bias(&mut Limited(recognizer), mask, start);
}

fn add_states(states: &mut Vec<StateID>, more: &[StateID]) {
    for state in more {
        if !states.contains(state) {
            states.push(*state);
        }
    }
}

fn find_step(recognizer: &mut ParserRecognizer<'_>, state: StateID) -> Step {
    let mut step = Step { states: Vec::new(), all: true, may_end: false };
    for range in PLAIN_ASCII {
        let next = follow(recognizer, &[state], range, &mut step);
        add_states(&mut step.states, &next);
    }
    let is_unknown = |step: &Step| !step.all && (!step.states.is_empty() || step.may_end);
    for sequence in PLAIN_UTF8 {
        if is_unknown(&step) {
            break; // Classes of Unicode have hundreds of states, and their memory is limited.
        }
        let mut next = vec![state];
        for range in sequence {
            next = follow(recognizer, &next, range.clone(), &mut step);
        }
        add_states(&mut step.states, &next);
    }
    step
}

/// The states after each byte of `range`. Notes in `step` if bytes may not follow.
fn follow(
    recognizer: &mut ParserRecognizer<'_>,
    states: &[StateID],
    range: RangeInclusive<u8>,
    step: &mut Step,
) -> Vec<StateID> {
    let lexer = recognizer.lexer_mut();
    let mut next = Vec::new();
    for state in states {
        budget::check();
        step.may_end |= !lexer.try_lexeme_end(*state).is_error();
        for byte in range.clone() {
            let after = lexer.transition_start_state(*state, Some(byte));
            step.all &= !after.is_dead();
            if after.has_lowest_match() {
                // The byte ends a lexeme.
                (step.all, step.may_end) = (false, true);
            } else if !after.is_dead() {
                add_states(&mut next, &[after]);
            }
        }
    }
    next
}

/// Follows tokens through the lexer, without the parser.
struct LexemeWalk<'a, 'b> {
    recognizer: &'a mut ParserRecognizer<'b>,
    /// None: a lexeme has ended.
    states: Vec<Option<StateID>>,
    past_end: bool,
}

impl LexemeWalk<'_, '_> {
    /// None: `byte` cannot follow.
    fn after(&mut self, byte: u8) -> Option<Option<StateID>> {
        let Some(state) = *self.states.last()? else { return Some(None) };
        budget::check();
        let lexer = self.recognizer.lexer_mut();
        let after = lexer.transition_start_state(state, Some(byte));
        if after.has_lowest_match() {
            return Some(None);
        }
        if !after.is_dead() {
            return Some(Some(after));
        }
        if lexer.try_lexeme_end(state).is_error() { None } else { Some(None) }
    }
}

impl Recognizer for LexemeWalk<'_, '_> {
    fn pop_bytes(&mut self, count: usize) {
        self.states.truncate(self.states.len() - count);
    }
    fn collapse(&mut self) {}
    fn trie_finished(&mut self) {
        self.states.truncate(1);
    }
    fn try_push_byte(&mut self, byte: u8) -> bool {
        match self.after(byte) {
            Some(state) if state.is_some() || self.past_end => {
                self.states.push(state);
                true
            }
            _ => false,
        }
    }
}

fn find_tokens(recognizer: &mut ParserRecognizer<'_>, trie: &TokTrie) -> Kept {
    let states = vec![Some(recognizer.lexer_state())];
    let mut walk = LexemeWalk { recognizer, states, past_end: false };
    let mut inside = trie.alloc_token_set();
    trie.add_bias(&mut walk, &mut inside, &[]);
    walk.past_end = true;
    let mut tried = trie.alloc_token_set();
    trie.add_bias(&mut walk, &mut tried, &[]);
    tried.sub(&inside);
    if tried.num_set() > MAX_TRIED {
        return Kept::TooMany;
    }
    Kept::Tokens(Arc::new(Tokens { inside, tried: tried.to_list() }))
}

fn can_follow(recognizer: &mut ParserRecognizer<'_>, token: &[u8]) -> bool {
    let mut limited = Limited(recognizer);
    let pushed = token.iter().take_while(|byte| limited.try_push_byte(**byte)).count();
    recognizer.pop_bytes(pushed);
    !token.is_empty() && pushed == token.len()
}
