//! Methods of Python's strings, lists and dicts, and its operator `%`, for chat templates. What is
//! not here is in `minijinja_contrib::pycompat`.

use minijinja::formatting::{FormatStyle, format};
use minijinja::value::{Kwargs, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

const MAX_WIDTH: i64 = 1 << 20;

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// The arguments of a call: by place or by name, as in Python. None counts as absent.
pub struct Arguments<'a> {
    positional: &'a [Value],
    kwargs: Kwargs,
}

impl<'a> Arguments<'a> {
    pub fn new(positional: &'a [Value], kwargs: Kwargs) -> Arguments<'a> {
        Arguments { positional, kwargs }
    }

    pub fn get(&self, index: usize, name: &'a str) -> Option<Value> {
        let named = || self.kwargs.get::<Option<Value>>(name).ok().flatten();
        let found = self.positional.get(index).cloned().or_else(named)?;
        if found.is_none() || found.is_undefined() { None } else { Some(found) }
    }

    fn text(&self, index: usize, name: &'a str) -> Result<Option<String>, Error> {
        let Some(found) = self.get(index, name) else { return Ok(None) };
        match found.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(error(format!("{name} must be a string, not {}", found.kind()))),
        }
    }

    fn needed_text(&self, index: usize, name: &'a str) -> Result<String, Error> {
        self.text(index, name)?.ok_or_else(|| error(format!("{name} is missing")))
    }

    fn number(&self, index: usize, name: &'a str) -> Result<Option<i64>, Error> {
        let Some(found) = self.get(index, name) else { return Ok(None) };
        found.as_i64().map(Some).ok_or_else(|| error(format!("{name} must be an integer")))
    }

    /// An error if there are more than `count` arguments, or others than were read.
    pub fn end(&self, count: usize) -> Result<(), Error> {
        if self.positional.len() > count {
            return Err(Error::from(ErrorKind::TooManyArguments));
        }
        self.kwargs.assert_all_used()
    }
}

/// `str.isspace` of one character.
fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn is_line_end(c: char) -> bool {
    matches!(
        c,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

fn strip(method: &str, text: &str, chars: Option<String>) -> String {
    let matches = |c: char| chars.as_ref().map_or_else(|| is_space(c), |set| set.contains(c));
    let text = if method == "rstrip" { text } else { text.trim_start_matches(matches) };
    if method == "lstrip" { text } else { text.trim_end_matches(matches) }.to_owned()
}

fn split(
    text: &str,
    separator: Option<&str>,
    most: Option<i64>,
    from_end: bool,
) -> Result<Vec<String>, Error> {
    let most = most.filter(|most| *most >= 0).map_or(usize::MAX, |most| most as usize);
    if separator == Some("") {
        return Err(error("the separator is empty"));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    if separator.is_none() {
        rest = if from_end {
            rest.trim_end_matches(is_space)
        } else {
            rest.trim_start_matches(is_space)
        };
    }
    while parts.len() < most {
        let found = match (separator, from_end) {
            (Some(separator), false) => rest.split_once(separator),
            (Some(separator), true) => rest.rsplit_once(separator).map(|(a, b)| (b, a)),
            (None, false) => {
                rest.split_once(is_space).map(|(a, b)| (a, b.trim_start_matches(is_space)))
            }
            (None, true) => {
                rest.rsplit_once(is_space).map(|(a, b)| (b, a.trim_end_matches(is_space)))
            }
        };
        let Some((part, after)) = found else { break };
        parts.push(part.to_owned());
        rest = after;
    }
    if separator.is_some() || !rest.is_empty() {
        parts.push(rest.to_owned());
    }
    if from_end {
        parts.reverse();
    }
    Ok(parts)
}

fn split_lines(text: &str, keep_ends: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (end, length) = match rest.find(is_line_end) {
            Some(end) if rest[end..].starts_with("\r\n") => (end, 2),
            Some(end) => (end, rest[end..].chars().next().map_or(0, char::len_utf8)),
            None => (rest.len(), 0),
        };
        lines.push(rest[..if keep_ends { end + length } else { end }].to_owned());
        rest = &rest[end + length..];
    }
    lines
}

/// Calls `change` with each character, and whether a letter comes before it.
fn map_letters(text: &str, change: impl Fn(char, bool) -> String) -> String {
    let mut after_letter = false;
    let mut out = String::new();
    for c in text.chars() {
        out += &change(c, after_letter);
        after_letter = c.is_alphabetic();
    }
    out
}

fn swap_case(c: char) -> String {
    if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
}

/// `center`, `ljust`, `rjust` and `zfill`.
pub fn pad(method: &str, text: &str, width: i64, fill: &str) -> Result<String, Error> {
    if width > MAX_WIDTH {
        return Err(error("the width is too large"));
    }
    let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
    let left = match method {
        "ljust" => 0,
        // Python puts the odd space to the left if the width is odd.
        "center" => missing / 2 + (missing & (width as usize) & 1),
        _ => missing,
    };
    if method == "zfill" {
        let sign = usize::from(text.starts_with(['-', '+']));
        return Ok(format!("{}{}{}", &text[..sign], "0".repeat(missing), &text[sign..]));
    }
    Ok(format!("{}{text}{}", fill.repeat(left), fill.repeat(missing - left)))
}

/// The part of `text` that a search with `start` and `end` looks at, and the characters before it.
fn window<'t>(text: &'t str, arguments: &Arguments) -> Result<(&'t str, usize), Error> {
    let length = text.chars().count() as i64;
    let place = |index: i64| (if index < 0 { index + length } else { index }).clamp(0, length);
    let start = place(arguments.number(1, "start")?.unwrap_or(0));
    let end = place(arguments.number(2, "end")?.unwrap_or(length)).max(start);
    let byte =
        |index: i64| text.char_indices().nth(index as usize).map_or(text.len(), |(at, _)| at);
    Ok((&text[byte(start)..byte(end)], start as usize))
}

fn search(method: &str, text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let (part, before) = window(text, arguments)?;
    let Some(what) = arguments.get(0, "sub") else { return Err(error("an argument is missing")) };
    arguments.end(3)?;
    if matches!(method, "startswith" | "endswith") {
        let matches = |what: &Value| match what.as_str() {
            Some(what) if method == "startswith" => Ok(part.starts_with(what)),
            Some(what) => Ok(part.ends_with(what)),
            None => Err(error(format!("{method} needs a string or a tuple of strings"))),
        };
        if what.as_str().is_some() {
            return matches(&what).map(Value::from);
        }
        for one in what.try_iter()? {
            if matches(&one)? {
                return Ok(Value::from(true));
            }
        }
        return Ok(Value::from(false));
    }
    let Some(what) = what.as_str() else { return Err(error(format!("{method} needs a string"))) };
    if method == "count" {
        return Ok(Value::from(part.matches(what).count()));
    }
    let found = if method.starts_with('r') { part.rfind(what) } else { part.find(what) };
    match found {
        Some(at) => Ok(Value::from(before + part[..at].chars().count())),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => Err(error("the text was not found")),
    }
}

pub fn replace(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let (old, new) = (arguments.needed_text(0, "old")?, arguments.needed_text(1, "new")?);
    let most = arguments.number(2, "count")?.filter(|most| *most >= 0);
    arguments.end(3)?;
    let most = most.map_or(usize::MAX, |most| most as usize);
    Ok(Value::from(text.replacen(&*old, &new, most)))
}

/// The filter `truncate` of Jinja2.
pub fn truncate(text: &str, arguments: &Arguments) -> Result<Value, Error> {
    let length = arguments.number(0, "length")?.unwrap_or(255).max(0) as usize;
    let cuts_words = arguments.get(1, "killwords").is_some_and(|value| value.is_true());
    let end = arguments.text(2, "end")?.unwrap_or_else(|| "...".to_owned());
    let leeway = arguments.number(3, "leeway")?.unwrap_or(5).max(0) as usize;
    arguments.end(4)?;
    if text.chars().count() <= length + leeway {
        return Ok(Value::from(text));
    }
    let kept = length.saturating_sub(end.chars().count());
    let cut: String = text.chars().take(kept).collect();
    let cut =
        if cuts_words { &cut } else { cut.rsplit_once(' ').map_or(&*cut, |(words, _)| words) };
    Ok(Value::from(format!("{cut}{end}")))
}

fn partition(method: &str, text: &str, separator: &str) -> Value {
    let found = if method == "partition" { text.find(separator) } else { text.rfind(separator) };
    let parts = match found {
        Some(at) => [&text[..at], separator, &text[at + separator.len()..]],
        None if method == "partition" => [text, "", ""],
        None => ["", "", text],
    };
    Value::from(Tuple::from(parts.map(Value::from)))
}

/// A method of a string; none if it is not here.
fn string_method(text: &str, method: &str, arguments: &Arguments) -> Result<Option<Value>, Error> {
    let done = |value: Value, count: usize| arguments.end(count).map(|()| Some(value));
    match method {
        "strip" | "lstrip" | "rstrip" => {
            done(strip(method, text, arguments.text(0, "chars")?).into(), 1)
        }
        "split" | "rsplit" => {
            let separator = arguments.text(0, "sep")?;
            let most = arguments.number(1, "maxsplit")?;
            done(split(text, separator.as_deref(), most, method == "rsplit")?.into(), 2)
        }
        "splitlines" => {
            let keep_ends = arguments.get(0, "keepends").is_some_and(|value| value.is_true());
            done(split_lines(text, keep_ends).into(), 1)
        }
        "startswith" | "endswith" | "find" | "rfind" | "index" | "rindex" | "count" => {
            search(method, text, arguments).map(Some)
        }
        "partition" | "rpartition" => {
            done(partition(method, text, &arguments.needed_text(0, "sep")?), 1)
        }
        "removeprefix" => {
            let prefix = arguments.needed_text(0, "prefix")?;
            done(text.strip_prefix(&*prefix).unwrap_or(text).into(), 1)
        }
        "removesuffix" => {
            let suffix = arguments.needed_text(0, "suffix")?;
            done(text.strip_suffix(&*suffix).unwrap_or(text).into(), 1)
        }
        "replace" => replace(text, arguments).map(Some),
        "center" | "ljust" | "rjust" | "zfill" => {
            let width = arguments.number(0, "width")?.unwrap_or(0);
            let fill = arguments.text(1, "fillchar")?.unwrap_or_else(|| " ".to_owned());
            done(pad(method, text, width, &fill)?.into(), 2)
        }
        "title" => done(
            map_letters(text, |c, after_letter| {
                if after_letter { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
            })
            .into(),
            0,
        ),
        "swapcase" => done(map_letters(text, |c, _| swap_case(c)).into(), 0),
        "casefold" => done(text.to_lowercase().replace('ß', "ss").into(), 0),
        "isdecimal" => {
            done((!text.is_empty() && text.chars().all(|c| c.is_ascii_digit())).into(), 0)
        }
        "istitle" => {
            let is_title = text.chars().any(char::is_alphabetic)
                && *text
                    == *map_letters(text, |c, after_letter| {
                        if after_letter {
                            c.to_lowercase().collect()
                        } else {
                            c.to_uppercase().collect()
                        }
                    });
            done(is_title.into(), 0)
        }
        _ => Ok(None),
    }
}

fn list_method(list: &Value, method: &str, arguments: &Arguments) -> Result<Option<Value>, Error> {
    match method {
        "copy" => Ok(Some(list.clone())),
        "index" => {
            let what = arguments.get(0, "value").unwrap_or_default();
            let found = list.try_iter()?.position(|item| item == what);
            found.map(|at| Some(at.into())).ok_or_else(|| error("the value is not in the list"))
        }
        _ => Ok(None),
    }
}

/// Calls a method that the engine does not know.
pub fn call_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let (positional, kwargs): (&[Value], Kwargs) = from_args(args)?;
    let arguments = Arguments::new(positional, kwargs);
    let result = match value.kind() {
        ValueKind::String => string_method(value.as_str().unwrap_or_default(), method, &arguments)?,
        ValueKind::Seq | ValueKind::Iterable => list_method(value, method, &arguments)?,
        ValueKind::Map if method == "copy" => Some(value.clone()),
        _ => None,
    };
    match result {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn as_integer(value: &Value) -> Option<i128> {
    let is_integer = value.is_integer() || value.kind() == ValueKind::Bool;
    if is_integer { i128::try_from(value.clone()).ok() } else { None }
}

/// The operator `%`: formats a string, or gives the remainder with the sign of the divisor.
pub fn modulo(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(text) = left.as_str() {
        let values =
            if right.is_tuple() { right.try_iter()?.collect() } else { vec![right.clone()] };
        return format(FormatStyle::Printf, text, &values).map(Value::from);
    }
    if let (Some(a), Some(b)) = (as_integer(left), as_integer(right)) {
        let remainder = a.checked_rem(b).ok_or_else(|| error("modulo by zero"))?;
        let has_other_sign = remainder != 0 && (remainder < 0) != (b < 0);
        let result = if has_other_sign { remainder + b } else { remainder };
        return Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from));
    }
    let number = |value: &Value| match value.kind() {
        ValueKind::Number | ValueKind::Bool => f64::try_from(value.clone()).ok(),
        _ => None,
    };
    match (number(left), number(right)) {
        (Some(_), Some(0.0)) => Err(error("modulo by zero")),
        (Some(a), Some(b)) => {
            let remainder = a % b;
            let has_other_sign = remainder != 0.0 && (remainder < 0.0) != (b < 0.0);
            Ok(Value::from(if has_other_sign { remainder + b } else { remainder.copysign(b) }))
        }
        _ => Err(error(format!("% does not work on {} and {}", left.kind(), right.kind()))),
    }
}
