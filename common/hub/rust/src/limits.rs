//! What the grammars of clients may not contain, because it would take too much memory, or because a
//! text could not be taken back as drafts need it.

use llguidance::HashSet;
use llguidance::earley::CGrammar;
use serde_json::{Map, Value};

use crate::boundary::Failure;

/// Bounds of a schema. llguidance repeats a part of the grammar for each item of a list, and for each
/// pair of properties of an object that counts them. Its automaton for multiples of n has n states.
/// Where schemas are combined, e.g. by allOf, it takes the least common multiple.
const MAX_ITEMS: f64 = 10_000.0;
const MAX_PROPERTY_PAIRS: usize = 1_000_000;
const MAX_DIVISOR: u64 = 10_000;
const MAX_DIVISORS: u64 = 20_000;
const MAX_DECIMALS: u32 = 9;

/// A value of a schema, and how it is reached.
struct Place<'a> {
    value: &'a Value,
    parent: usize,
    key: Key<'a>,
}

enum Key<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

/// The JSON pointer of a place, e.g. "#/properties/age".
fn pointer(places: &[Place], mut at: usize) -> String {
    let mut keys = Vec::new();
    loop {
        match places[at].key {
            Key::Root => break,
            Key::Name(name) => keys.push(name.to_owned()),
            Key::Index(index) => keys.push(index.to_string()),
        }
        at = places[at].parent;
    }
    keys.push("#".to_owned());
    keys.reverse();
    keys.join("/")
}

/// A decimal number: `digits` / 10^`decimals`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u64,
    decimals: u32,
}

impl Decimal {
    /// None if it has too many digits.
    fn new(number: f64) -> Option<Decimal> {
        let mut scaled = number;
        for decimals in 0..=MAX_DECIMALS {
            if scaled.fract() == 0.0 && scaled <= u32::MAX.into() {
                return Some(Decimal { digits: scaled as u64, decimals });
            }
            scaled *= 10.0;
        }
        None
    }

    fn digits_with(self, decimals: u32) -> u64 {
        self.digits.saturating_mul(10u64.saturating_pow(decimals - self.decimals))
    }

    /// The least common multiple.
    fn combine(self, other: Decimal) -> Decimal {
        let decimals = self.decimals.max(other.decimals);
        let (a, b) = (self.digits_with(decimals), other.digits_with(decimals));
        let (mut divisor, mut rest) = (a, b);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Decimal { digits: (a / divisor.max(1)).saturating_mul(b), decimals }
    }
}

/// What the parts of a schema add up to.
struct Totals {
    items: f64,
    property_pairs: usize,
    divisors: u64,
    common_multiple: Decimal,
}

impl Totals {
    fn add(&mut self, fields: &Map<String, Value>) -> Result<(), String> {
        let number = |name| fields.get(name).and_then(Value::as_f64);
        let count = |name| number(name).map_or(0.0, |n| n.max(0.0));
        self.items += count("minItems") + count("maxItems");
        if self.items > MAX_ITEMS {
            let items = self.items;
            return Err(format!("minItems and maxItems add up to {items}; at most {MAX_ITEMS}"));
        }
        if number("minProperties").or(number("maxProperties")).is_some() {
            let names = fields.get("properties").and_then(Value::as_object);
            self.property_pairs += names.map_or(0, |names| names.len().pow(2));
            if self.property_pairs > MAX_PROPERTY_PAIRS {
                let what = "objects with minProperties or maxProperties have too many properties";
                return Err(what.to_owned());
            }
        }
        fields.get("multipleOf").map_or(Ok(()), |divisor| self.add_divisor(divisor))
    }

    fn add_divisor(&mut self, divisor: &Value) -> Result<(), String> {
        let Some(number) = divisor.as_f64() else { return Ok(()) }; // llguidance reports it.
        let Some(decimal) = Decimal::new(number).filter(|one| one.digits <= MAX_DIVISOR) else {
            return Err(format!(
                "multipleOf is {divisor}; it may have at most {MAX_DECIMALS} decimals, and its \
                 digits may be at most {MAX_DIVISOR}"
            ));
        };
        if decimal.digits == 0 {
            return Ok(()); // llguidance reports it, or takes it for the number 0.
        }
        self.divisors += decimal.digits;
        self.common_multiple = self.common_multiple.combine(decimal);
        let common = self.common_multiple.digits;
        if self.divisors > MAX_DIVISORS || common > MAX_DIVISORS {
            let sum = self.divisors;
            return Err(format!(
                "the digits of all multipleOf add up to {sum}, and their least common multiple is \
                 {common}; at most {MAX_DIVISORS} each"
            ));
        }
        Ok(())
    }
}

pub fn check_bounds(schema: &Value) -> Result<(), Failure> {
    let mut totals = Totals {
        items: 0.0,
        property_pairs: 0,
        divisors: 0,
        common_multiple: Decimal { digits: 1, decimals: 0 },
    };
    let mut places = vec![Place { value: schema, parent: 0, key: Key::Root }];
    let mut at = 0;
    while at < places.len() {
        let value = places[at].value;
        let mut add = |value, key| places.push(Place { value, parent: at, key });
        match value {
            Value::Array(values) => {
                values.iter().enumerate().for_each(|(i, value)| add(value, Key::Index(i)));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, value)| add(value, Key::Name(name)));
                totals.add(fields).map_err(|problem| {
                    Failure::invalid(format!("at {}: {problem}", pointer(&places, at)))
                })?;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Attributes of Lark rules. The text of lazy rules is taken back after it matched, also where drafts
/// depend on it. A parser with max_tokens cannot go back. llguidance stores captured text again and
/// again. A temperature would have no effect.
pub fn has_unsupported_attributes(grammar: &CGrammar) -> bool {
    let lexer = grammar.lexer_spec();
    if !lexer.can_rollback()
        || !lexer.lazy_lexemes().is_empty()
        || !lexer.eos_ending_lexemes().is_empty()
    {
        return true;
    }
    let mut seen = HashSet::from_iter([grammar.start()]);
    let mut rest = vec![grammar.start()];
    while let Some(symbol) = rest.pop() {
        let data = grammar.sym_data(symbol);
        let captures = [&data.props.capture_name, &data.props.stop_capture_name];
        if data.props.temperature != 0.0 || captures.into_iter().any(Option::is_some) {
            return true;
        }
        for rule in &data.rules {
            rest.extend(grammar.rule_rhs(*rule).0.iter().filter(|symbol| seen.insert(**symbol)));
        }
    }
    false
}
