//! Rewrites the JSON schemas of clients for llguidance, which takes a `$ref` for names between
//! slashes, refuses formats that it does not know, and rounds numbers to doubles.
//!
//! `prepare` resolves references as JSON Schema does: escapes, anchors and ids. It drops formats that
//! are only annotations. It refuses numbers that llguidance would round, so that no answer breaks its
//! schema.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use crate::boundary::Failure;

/// Keywords with a schema or a list of schemas.
const SCHEMAS: [&str; 15] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with schemas by names.
const NAMED_SCHEMAS: [&str; 5] =
    ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];
/// The formats that llguidance enforces.
const FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];
/// Where the schema holds copies of what references name.
const COPIES: &str = "x-references";
/// Doubles below it tell all neighboring integers apart.
const EXACT_DOUBLES: i128 = 1 << 53;
/// llguidance converts bounds to 64-bit integers. It cannot negate the lowest one, so the next double
/// takes its place as a lower bound.
const LEAST: i128 = i64::MIN as i128;
const MOST: i128 = i64::MAX as i128;
const LEAST_BOUND: i64 = i64::MIN + 1024;

/// The names of a JSON pointer.
type Path = Vec<String>;

struct Walk<'a> {
    original: &'a Value,
    /// Anchors, with "#", and ids.
    marked: HashMap<String, Path>,
    /// The names of the copies, by reference.
    copies: HashMap<String, String>,
    /// References whose copies are not made yet.
    pending: Vec<String>,
    /// The place that the walk has reached.
    place: Path,
}

/// Rewrites `schema`. The error names the place of what is not supported.
pub fn prepare(schema: &mut Value) -> Result<(), Failure> {
    let original = schema.clone();
    let mut walk = Walk {
        original: &original,
        marked: HashMap::new(),
        copies: HashMap::new(),
        pending: Vec::new(),
        place: Path::new(),
    };
    walk.mark(&original);
    walk.rewrite(schema)?;
    let mut copies = Map::new();
    while let Some(reference) = walk.pending.pop() {
        let mut copy = walk.find(&reference)?.clone();
        walk.place = vec![reference.trim_start_matches("#/").to_owned()];
        walk.rewrite(&mut copy)?;
        copies.insert(walk.copies[&reference].clone(), copy);
    }
    if let (Value::Object(fields), false) = (schema, copies.is_empty()) {
        fields.insert(COPIES.to_owned(), copies.into());
    }
    Ok(())
}

/// Calls `visit` for each schema in `fields`, with its keyword and its name or number.
fn for_each<'a>(
    fields: impl Iterator<Item = (&'a String, &'a mut Value)>,
    mut visit: impl FnMut(&[&str], &mut Value) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for (keyword, value) in fields {
        let keyword = keyword.as_str();
        match value {
            Value::Object(named) if NAMED_SCHEMAS.contains(&keyword) => {
                for (name, schema) in named {
                    visit(&[keyword, name], schema)?;
                }
            }
            Value::Array(list) if SCHEMAS.contains(&keyword) => {
                for (i, schema) in list.iter_mut().enumerate() {
                    visit(&[keyword, &i.to_string()], schema)?;
                }
            }
            schema if SCHEMAS.contains(&keyword) => visit(&[keyword], schema)?,
            _ => {}
        }
    }
    Ok(())
}

impl Walk<'_> {
    /// Records the anchors and ids in `value`, wherever they are.
    fn mark(&mut self, value: &Value) {
        let mut visit = |key: String, value: &Value| {
            self.place.push(key);
            self.mark(value);
            self.place.pop();
        };
        match value {
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(i, value)| visit(i.to_string(), value));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| visit(name.clone(), value));
                let text = |name| fields.get(name).and_then(Value::as_str);
                let ids = [text("$id"), text("id")].into_iter().flatten();
                let mut names: Vec<String> =
                    ids.map(|id| id.strip_suffix('#').unwrap_or(id).to_owned()).collect();
                names.extend(text("$anchor").map(|anchor| format!("#{anchor}")));
                for name in names {
                    self.marked.entry(name).or_insert_with(|| self.place.clone());
                }
            }
            _ => {}
        }
    }

    fn failure(&self, problem: impl std::fmt::Display) -> Failure {
        let place: String = self.place.iter().map(|name| format!("/{name}")).collect();
        Failure::invalid(format!("at #{place}: {problem}"))
    }

    fn rewrite(&mut self, schema: &mut Value) -> Result<(), Failure> {
        let Value::Object(fields) = schema else { return Ok(()) }; // llguidance checks the type.
        let is_annotation = |format: &str| !FORMATS.contains(&format);
        if fields.get("format").and_then(Value::as_str).is_some_and(is_annotation) {
            fields.shift_remove("format");
        }
        if let Some(Value::String(reference)) = fields.get("$ref") {
            let resolved = self.resolve(reference)?;
            fields.insert("$ref".to_owned(), resolved.into());
        }
        check_numbers(fields).map_err(|problem| self.failure(problem))?;
        for_each(fields.iter_mut(), |keys, schema| {
            let length = self.place.len();
            self.place.extend(keys.iter().map(|key| (*key).to_owned()));
            self.rewrite(schema)?;
            self.place.truncate(length);
            Ok(())
        })
    }

    /// The reference in the form that llguidance reads.
    fn resolve(&mut self, reference: &str) -> Result<String, Failure> {
        let is_plain = |name: &str| !name.is_empty() && !name.contains(['/', '~', '%']);
        let name = ["#/$defs/", "#/definitions/"].iter().find_map(|p| reference.strip_prefix(p));
        if reference == "#" || name.is_some_and(is_plain) {
            self.find(reference)?;
            return Ok(reference.to_owned());
        }
        if let Some(name) = self.copies.get(reference) {
            return Ok(format!("#/{COPIES}/{name}"));
        }
        if std::ptr::eq(self.find(reference)?, self.original) {
            return Ok("#".to_owned());
        }
        let name = self.copies.len().to_string();
        self.copies.insert(reference.to_owned(), name.clone());
        self.pending.push(reference.to_owned());
        Ok(format!("#/{COPIES}/{name}"))
    }

    /// What `reference` names in the original schema.
    fn find(&self, reference: &str) -> Result<&Value, Failure> {
        let missing = || {
            let hint = "it must name a part of this schema, e.g. #/$defs/NAME";
            self.failure(format!("$ref {reference:?} is not found; {hint}"))
        };
        let (id, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let start = if id.is_empty() { Some(Path::new()) } else { self.marked.get(id).cloned() };
        let mut path = start.ok_or_else(missing)?;
        let decoded = percent_decoded(fragment).ok_or_else(missing)?;
        if let Some(pointer) = decoded.strip_prefix('/') {
            let unescaped = |name: &str| name.replace("~1", "/").replace("~0", "~");
            path.extend(pointer.split('/').map(unescaped));
        } else if !decoded.is_empty() {
            path = self.marked.get(&format!("#{decoded}")).ok_or_else(missing)?.clone();
        }
        let mut found = self.original;
        for name in &path {
            found = match found {
                Value::Array(list) => name.parse().ok().and_then(|i: usize| list.get(i)),
                other => other.get(name),
            }
            .ok_or_else(missing)?;
        }
        Ok(found)
    }
}

/// Decodes percent-encodings, e.g. %20. None if the result is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                decoded.push(byte);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

/// The value of an integer, or that of another number without its decimals.
fn truncated(number: &Number) -> i128 {
    match (number.as_i64(), number.as_u64()) {
        (Some(value), _) => value.into(),
        (None, Some(value)) => value.into(),
        _ => number.as_f64().unwrap_or(0.0) as i128,
    }
}

fn is_double(value: i128) -> bool {
    (value as f64) as i128 == value
}

/// Refuses bounds and constants that llguidance would round or not terminate on. A type in another
/// part of the schema may make any number an integer, unless the type is "number".
fn check_numbers(fields: &mut Map<String, Value>) -> Result<(), String> {
    let has_type = |name: &str| match fields.get("type") {
        Some(Value::Array(names)) => names.iter().any(|value| value == name),
        value => value.is_some_and(|value| value == name),
    };
    let is_integer = has_type("integer") && !has_type("number");
    let is_number = has_type("number") && !has_type("integer");
    let excludes = |name: &str| fields.get(name) == Some(&Value::Bool(true)); // Draft 4.
    for (name, is_lower, is_exclusive) in [
        ("minimum", true, excludes("exclusiveMinimum")),
        ("exclusiveMinimum", true, true),
        ("maximum", false, excludes("exclusiveMaximum")),
        ("exclusiveMaximum", false, true),
    ] {
        let Some(Value::Number(number)) = fields.get(name) else { continue };
        let value = truncated(number);
        let is_whole_range =
            is_integer && !is_exclusive && (if is_lower { value <= LEAST } else { value >= MOST });
        let is_beyond = if is_lower { value > MOST && !is_number } else { value <= LEAST };
        let needs_neighbor = is_exclusive && !is_number && value.abs() >= EXACT_DOUBLES;
        if !is_whole_range && (is_beyond || needs_neighbor || !is_double(value)) {
            return Err(inexact(name, number));
        }
    }
    ["const", "enum"].iter().try_for_each(|name| {
        fields.get(*name).map_or(Ok(()), |value| check_constants(name, value))
    })?;
    if let (true, Some(Value::Number(number))) = (is_integer, fields.get("minimum")) {
        if truncated(number) <= LEAST {
            fields.insert("minimum".to_owned(), LEAST_BOUND.into());
        }
    }
    Ok(())
}

fn inexact(name: &str, number: &Number) -> String {
    format!(
        "{name} is {number}, which cannot be enforced exactly; use a number from -{EXACT_DOUBLES} to \
         {EXACT_DOUBLES}"
    )
}

fn check_constants(name: &str, value: &Value) -> Result<(), String> {
    match value {
        Value::Number(number) => {
            let value = truncated(number);
            let is_kept = is_double(value) || value == MOST;
            if is_kept && value > LEAST { Ok(()) } else { Err(inexact(name, number)) }
        }
        Value::Array(list) => list.iter().try_for_each(|value| check_constants(name, value)),
        Value::Object(fields) => fields.values().try_for_each(|value| check_constants(name, value)),
        _ => Ok(()),
    }
}
