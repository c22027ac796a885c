//! Values as Python writes them: floats, and JSON like `json.dumps`.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::python_methods::Arguments;

/// Python's own limit for nested calls is about this.
const MAX_DEPTH: usize = 500;

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

pub fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

/// `repr` of a float: the shortest digits that give the same number.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format!("{number:?}"); // Has an exponent where Python's has one.
    match text.split_once('e') {
        Some((digits, exponent)) => {
            format!("{digits}e{:+03}", exponent.parse::<i32>().unwrap_or_default())
        }
        None => text,
    }
}

/// `repr`: how Python prints a value inside a list or dict.
fn write_repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(error("the value is nested too deeply"));
    }
    let is_list = value.kind() == ValueKind::Seq
        || (value.kind() == ValueKind::Iterable && value.len().is_some());
    if is_list {
        let items: Vec<Value> = value.try_iter()?.collect();
        out.push(if value.is_tuple() { '(' } else { '[' });
        for (i, item) in items.iter().enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            write_repr(item, depth + 1, out)?;
        }
        out.push_str(match (value.is_tuple(), items.len()) {
            (true, 1) => ",)",
            (true, _) => ")",
            (false, _) => "]",
        });
    } else if value.kind() == ValueKind::Map {
        out.push('{');
        for (i, key) in value.try_iter()?.enumerate() {
            out.push_str(if i > 0 { ", " } else { "" });
            write_repr(&key, depth + 1, out)?;
            out.push_str(": ");
            write_repr(&value.get_item(&key)?, depth + 1, out)?;
        }
        out.push('}');
    } else if value.kind() == ValueKind::String {
        out.push_str(&format!("{value:?}"));
    } else {
        out.push_str(&text(value)?);
    }
    Ok(())
}

/// `str`: how Python prints a value.
pub fn text(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Number if is_float(value) => Ok(float_text(f64::try_from(value.clone())?)),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => {
            let mut out = String::new();
            // An iterator has no length, and Python prints its address.
            if value.len().is_none() {
                return Ok(value.to_string());
            }
            write_repr(value, 0, &mut out)?;
            Ok(out)
        }
        _ => Ok(value.to_string()),
    }
}

struct JsonWriter {
    out: String,
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
    depth: usize,
}

impl JsonWriter {
    fn write(&mut self, value: &Value) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool | ValueKind::Number => self.out.push_str(&scalar_text(value)),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item)).collect();
                self.write_container('[', items, ']')?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    items.push((Some(key.clone()), value.get_item(&key)?));
                }
                if self.sort_keys {
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.write_container('{', items, '}')?;
            }
            kind => return Err(error(format!("a value of type {kind} has no JSON"))),
        }
        Ok(())
    }

    fn write_container(
        &mut self,
        open: char,
        items: Vec<(Option<Value>, Value)>,
        close: char,
    ) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(error("the value is nested too deeply for JSON"));
        }
        self.out.push(open);
        let is_empty = items.is_empty();
        for (i, (key, item)) in items.into_iter().enumerate() {
            if i > 0 {
                self.out.push_str(&self.item_separator);
            }
            self.write_line();
            if let Some(key) = key {
                self.write_key(&key)?;
            }
            self.write(&item)?;
        }
        self.depth -= 1;
        if !is_empty {
            self.write_line();
        }
        self.out.push(close);
        Ok(())
    }

    fn write_line(&mut self) {
        if let Some(indent) = &self.indent {
            self.out.push('\n');
            (0..self.depth).for_each(|_| self.out.push_str(indent));
        }
    }

    fn write_key(&mut self, key: &Value) -> Result<(), Error> {
        match key.kind() {
            ValueKind::String => self.write_string(key.as_str().unwrap_or_default()),
            ValueKind::None => self.write_string("null"),
            ValueKind::Bool | ValueKind::Number => self.write_string(&scalar_text(key)),
            kind => return Err(error(format!("a value of type {kind} cannot be a key of JSON"))),
        }
        self.out.push_str(&self.key_separator);
        Ok(())
    }

    fn write_string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.ensure_ascii && c > '~') => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }
}

/// A boolean or a number in JSON.
fn scalar_text(value: &Value) -> String {
    if value.kind() == ValueKind::Bool {
        return value.is_true().to_string();
    }
    match f64::try_from(value.clone()) {
        Ok(number) if is_float(value) => match float_text(number).as_str() {
            "nan" => "NaN".to_owned(),
            "inf" => "Infinity".to_owned(),
            "-inf" => "-Infinity".to_owned(),
            text => text.to_owned(),
        },
        _ => value.to_string(),
    }
}

/// The filter `tojson` of `transformers`: json.dumps without escapes for HTML.
pub fn tojson(value: &Value, positional: &[Value], kwargs: Kwargs) -> Result<Value, Error> {
    let arguments = Arguments::new(positional, kwargs);
    let ensure_ascii = arguments.get(0, "ensure_ascii");
    let indent = match arguments.get(1, "indent") {
        Some(text) if text.as_str().is_some() => Some(text.to_string()),
        Some(count) => Some(" ".repeat(count.as_i64().unwrap_or_default().clamp(0, 64) as usize)),
        None => None,
    };
    let separators = match arguments.get(2, "separators") {
        Some(pair) => pair.try_iter()?.map(|text| text.to_string()).collect(),
        None => vec![if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()],
    };
    let sort_keys = arguments.get(3, "sort_keys");
    arguments.end(4)?;
    let [item_separator, key_separator] = <[String; 2]>::try_from(separators)
        .map_err(|_| error("separators of tojson must be a pair of strings"))?;
    let mut writer = JsonWriter {
        out: String::new(),
        ensure_ascii: ensure_ascii.is_some_and(|value| value.is_true()),
        indent,
        item_separator,
        key_separator,
        sort_keys: sort_keys.is_some_and(|value| value.is_true()),
        depth: 0,
    };
    writer.write(value)?;
    Ok(Value::from_safe_string(writer.out))
}
