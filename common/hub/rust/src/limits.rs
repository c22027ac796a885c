//! What the grammars of clients may not contain, because it would take too much memory, or because a
//! text could not be taken back as drafts need it.

use llguidance::HashSet;
use llguidance::earley::CGrammar;
use serde_json::Value;

use crate::boundary::Failure;

/// Bounds of a schema. llguidance repeats a part of the grammar for each item of a list, and for each
/// pair of properties of an object that counts them.
const MAX_ITEMS: f64 = 10_000.0;
const MAX_PROPERTY_PAIRS: usize = 1_000_000;

pub fn check_bounds(schema: &Value) -> Result<(), Failure> {
    let (mut items, mut pairs) = (0.0, 0);
    let mut rest = vec![schema];
    while let Some(value) = rest.pop() {
        match value {
            Value::Array(values) => rest.extend(values),
            Value::Object(fields) => {
                rest.extend(fields.values());
                let number = |name| fields.get(name).and_then(Value::as_f64);
                let count = |name| number(name).map_or(0.0, |n| n.max(0.0));
                items += count("minItems") + count("maxItems");
                if number("minProperties").or(number("maxProperties")).is_some() {
                    let names = fields.get("properties").and_then(Value::as_object);
                    pairs += names.map_or(0, |names| names.len().pow(2));
                }
            }
            _ => {}
        }
    }
    if items > MAX_ITEMS {
        return Err(Failure::invalid(format!(
            "minItems and maxItems add up to {items}; at most {MAX_ITEMS}"
        )));
    }
    if pairs > MAX_PROPERTY_PAIRS {
        return Err(Failure::invalid(
            "objects with minProperties or maxProperties have too many properties",
        ));
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
