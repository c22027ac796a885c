//! Which tokens may follow a text. Most tokens of a vocabulary are plain: words, without anything
//! that JSON escapes in strings. Inside strings the parser need not try each of them: it is enough to
//! know how many plain characters may follow.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use llguidance::HashMap;
use llguidance::derivre::StateID;
use llguidance::earley::{BiasComputer, ParserRecognizer};
use llguidance::toktrie::{SimpleVob, TokEnv, TokTrie};

/// Tokens with more plain characters are tried one by one where strings have a limit.
const MAX_CHARACTERS: usize = 32;
/// The states of a lexer after some plain characters. Grammars with more are not looked into.
const MAX_STATES: usize = 8;

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
}

impl Vocabulary {
    pub fn new(environment: &TokEnv) -> Vocabulary {
        let trie = environment.tok_trie();
        let empty = trie.alloc_token_set();
        let (mut plain, mut long, mut other) = (empty.clone(), empty.clone(), empty.clone());
        let mut up_to = vec![empty; MAX_CHARACTERS + 1];
        for token in 0..trie.vocab_size() as u32 {
            let Some(characters) = plain_characters(trie.token(token)) else {
                other.allow_token(token);
                continue;
            };
            plain.allow_token(token);
            if characters > MAX_CHARACTERS {
                long.allow_token(token);
            }
            up_to.iter_mut().skip(characters).for_each(|tokens| tokens.allow_token(token));
        }
        let (long, other) = (trie.filter(&long), trie.filter(&other));
        Vocabulary { environment: environment.clone(), up_to, plain, long, other }
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

/// Computes the masks of one parser. A copy of a parser needs a copy of this.
pub struct Masks {
    vocabulary: Arc<Vocabulary>,
    steps: Mutex<HashMap<StateID, Arc<Step>>>,
}

impl Masks {
    pub fn new(vocabulary: &Arc<Vocabulary>) -> Masks {
        Masks { vocabulary: vocabulary.clone(), steps: Mutex::default() }
    }

    pub fn copy(&self) -> Masks {
        let steps = self.steps.lock().unwrap().clone();
        Masks { vocabulary: self.vocabulary.clone(), steps: Mutex::new(steps) }
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
        if let Some(step) = self.steps.lock().unwrap().get(&state) {
            return step.clone();
        }
        let step = Arc::new(find_step(recognizer, state));
        self.steps.lock().unwrap().insert(state, step.clone());
        step
    }
}

impl BiasComputer for Masks {
    fn compute_bias(&self, recognizer: &mut ParserRecognizer<'_>, start: &[u8]) -> SimpleVob {
        let Vocabulary { up_to, plain, long, other, .. } = &*self.vocabulary;
        let mut mask = self.trie().alloc_token_set();
        let room = if start.is_empty() { self.room(recognizer) } else { Room::Unknown };
        match room {
            Room::UpTo(characters) => mask.or(&up_to[characters]),
            Room::Much => {
                mask.or(&up_to[MAX_CHARACTERS]);
                long.add_bias(recognizer, &mut mask, &[]);
            }
            Room::All => mask.or(plain),
            Room::Unknown => {
                self.trie().add_bias(recognizer, &mut mask, start);
                return mask;
            }
        }
        other.add_bias(recognizer, &mut mask, &[]);
        mask
    }

    fn trie(&self) -> &TokTrie {
        self.vocabulary.environment.tok_trie()
    }
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
    for sequence in PLAIN_UTF8 {
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
