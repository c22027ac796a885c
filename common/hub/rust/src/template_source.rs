//! Rewrites the source of a chat template, which is Jinja2 for Python, for the engine:
//!
//! - the tags `generation` and `endgeneration`, which mark the assistant's text for training, become
//!   `with` and `endwith`: a block that does nothing but open a scope;
//! - the operator `%` becomes a call of `MODULO`, because the engine's does not format strings.
//!
//! Lines keep their numbers.

pub const MODULO: &str = "_modulo";

/// Words that end an operand of `%`, unless they follow a dot or a bar.
const WORD_OPERATORS: [&str; 7] = ["and", "or", "not", "in", "if", "else", "elif"];
const OPERATORS: [&str; 7] = ["**", "//", "==", "!=", "<=", ">=", "->"];

/// An expression inside one pair of brackets, or outside of all.
#[derive(Default)]
struct Level {
    /// Where the operand begins to which the next `%` applies: a chain of `*`, `/` and `%`.
    chain: Option<usize>,
    /// A `%` was read, and the end of its second operand was not.
    is_open: bool,
    end: usize,
    previous: Previous,
}

#[derive(Default, PartialEq)]
enum Previous {
    #[default]
    Operator,
    Operand,
    /// `.` or `|`: a name follows.
    Selector,
    /// `is`: the name of a test follows, perhaps after `not`.
    Is,
}

pub struct Rewriter<'a> {
    source: &'a str,
    at: usize,
    out: String,
    /// Insertions into the expression, by place.
    edits: Vec<(usize, usize, &'static str)>,
    levels: Vec<Level>,
}

/// The length of the token at the start of `text`, which is not empty and no white space.
fn token_length(text: &str) -> usize {
    let first = text.chars().next().unwrap_or(' ');
    if first == '\'' || first == '"' {
        let mut escaped = false;
        for (i, c) in text.char_indices().skip(1) {
            if c == first && !escaped {
                return i + 1;
            }
            escaped = c == '\\' && !escaped;
        }
        return text.len();
    }
    if is_word(first) {
        return text.find(|c| !is_word(c)).unwrap_or(text.len());
    }
    if OPERATORS.iter().any(|operator| text.starts_with(operator)) { 2 } else { first.len_utf8() }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl<'a> Rewriter<'a> {
    pub fn rewrite(source: &'a str) -> String {
        let mut rewriter =
            Rewriter { source, at: 0, out: String::new(), edits: vec![], levels: vec![] };
        while rewriter.at < source.len() {
            rewriter.step();
        }
        rewriter.out
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn copy(&mut self, bytes: usize) {
        self.out.push_str(&self.rest()[..bytes]);
        self.at += bytes;
    }

    /// Copies text, and the comment, expression or tag after it.
    fn step(&mut self) {
        let starts = ["{{", "{%", "{#"].iter().filter_map(|start| self.rest().find(start));
        let text = starts.min().unwrap_or(self.rest().len());
        self.copy(text);
        if self.rest().starts_with("{#") {
            self.copy(self.rest().find("#}").map_or(self.rest().len(), |end| end + 2));
        } else if self.rest().starts_with("{{") {
            self.copy(2);
            self.expression("}}");
        } else if self.rest().starts_with("{%") {
            self.tag();
        }
    }

    fn tag(&mut self) {
        self.copy(2);
        self.copy(usize::from(self.rest().starts_with(['-', '+'])));
        self.copy_spaces();
        let name = &self.rest()[..self.rest().find(|c| !is_word(c)).unwrap_or(self.rest().len())];
        match name {
            "generation" => self.out.push_str("with"),
            "endgeneration" => self.out.push_str("endwith"),
            _ => self.out.push_str(name),
        }
        self.at += name.len();
        if name == "raw" {
            return self.copy(self.raw_length());
        }
        self.expression("%}");
    }

    /// The bytes up to the end of a raw block, without its end tag.
    fn raw_length(&self) -> usize {
        let rest = self.rest();
        let is_end = |at: usize| {
            let tag = rest[at + 2..].trim_start_matches(['-', '+']).trim_start();
            tag.starts_with("endraw")
        };
        let end = rest.match_indices("{%").map(|(at, _)| at).find(|at| is_end(*at));
        end.unwrap_or(rest.len())
    }

    fn copy_spaces(&mut self) {
        let rest = self.rest();
        self.copy(rest.len() - rest.trim_start().len());
    }

    /// Copies an expression up to `close`, with calls for the operators `%`.
    fn expression(&mut self, close: &str) {
        let begin = self.at;
        self.edits.clear();
        self.levels = vec![Level::default()];
        let mut at = begin;
        loop {
            let rest = &self.source[at..];
            at += rest.len() - rest.trim_start().len();
            let rest = &self.source[at..];
            let sign = usize::from(rest.starts_with(['-', '+']));
            let is_end = self.levels.len() == 1 && rest[sign..].starts_with(close);
            if rest.is_empty() || is_end {
                break;
            }
            let length = token_length(rest);
            self.token(at, &rest[..length]);
            at += length;
        }
        self.end_chain();
        self.apply_edits(begin, at);
        let sign = usize::from(self.rest().starts_with(['-', '+']));
        self.copy((sign + close.len()).min(self.rest().len()));
    }

    fn token(&mut self, at: usize, token: &str) {
        let level = self.levels.last_mut().expect("there is always a level");
        match token {
            "(" | "[" | "{" => {
                level.chain.get_or_insert(at);
                return self.levels.push(Level::default());
            }
            ")" | "]" | "}" => {
                self.end_chain();
                if self.levels.len() > 1 {
                    self.levels.pop();
                }
                return self.operand(at, token);
            }
            "%" => return self.modulo(at),
            "*" | "/" | "//" => {
                self.end_modulo();
                return self.previous(Previous::Operator);
            }
            "." | "|" => return self.previous(Previous::Selector),
            "**" => return self.previous(Previous::Operator),
            _ => {}
        }
        let names_follow = matches!(level.previous, Previous::Selector | Previous::Is);
        if token == "is" && level.previous == Previous::Operand {
            return self.previous(Previous::Is);
        }
        if token == "not" && level.previous == Previous::Is {
            return;
        }
        let is_sign = matches!(token, "-" | "+") && level.previous != Previous::Operand;
        if is_sign {
            level.chain.get_or_insert(at);
            return;
        }
        let is_operand = token.starts_with(|c| is_word(c) || c == '\'' || c == '"')
            && (names_follow || !WORD_OPERATORS.contains(&token));
        if is_operand {
            return self.operand(at, token);
        }
        self.end_chain();
        self.previous(Previous::Operator);
    }

    fn previous(&mut self, previous: Previous) {
        self.levels.last_mut().expect("there is always a level").previous = previous;
    }

    fn operand(&mut self, at: usize, token: &str) {
        let level = self.levels.last_mut().expect("there is always a level");
        level.chain.get_or_insert(at);
        level.end = at + token.len();
        level.previous = Previous::Operand;
    }

    fn modulo(&mut self, at: usize) {
        self.end_modulo();
        let level = self.levels.last_mut().expect("there is always a level");
        let chain = *level.chain.get_or_insert(at);
        level.is_open = true;
        level.previous = Previous::Operator;
        self.edits.push((chain, chain, "("));
        self.edits.push((at, at + 1, ","));
    }

    /// Ends the second operand of a `%`.
    fn end_modulo(&mut self) {
        let level = self.levels.last_mut().expect("there is always a level");
        if level.is_open {
            level.is_open = false;
            let end = level.end;
            self.edits.push((end, end, ")"));
        }
    }

    fn end_chain(&mut self) {
        self.end_modulo();
        self.levels.last_mut().expect("there is always a level").chain = None;
    }

    /// Copies the source from `begin` to `end` with the edits: (from, to, replacement).
    fn apply_edits(&mut self, begin: usize, end: usize) {
        let mut edits = std::mem::take(&mut self.edits);
        // Stable: closing brackets of one place keep their order. They come before opening ones.
        edits.sort_by_key(|(from, _, text)| (*from, *text == "("));
        let mut at = begin;
        for (from, to, text) in edits {
            self.out.push_str(&self.source[at..from]);
            if text == "(" {
                self.out.push_str(MODULO);
            }
            self.out.push_str(text);
            at = to;
        }
        self.out.push_str(&self.source[at..end]);
        self.at = end;
    }
}
