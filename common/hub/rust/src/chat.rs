//! Chat templates: Jinja with everything that `transformers` gives to a template. This is the one
//! place that builds the engine's environment.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, context, escape_formatter};

use crate::boundary::{Bytes, Failure, Status, Text, free_handle, guard};
use crate::python_methods::Arguments;
use crate::template_source::{MODULO, Rewriter};
use crate::{local_time, python_methods, python_text};

const NAME: &str = "chat_template";

/// Maximum number of steps to render a template. A long conversation needs far fewer. The limit
/// stops templates with huge nested loops.
const FUEL: u64 = 10_000_000;

pub struct Handle {
    environment: Environment<'static>,
}

/// `len`: 0 for an undefined value.
fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| {
        let message = format!("a value of type {} has no length", value.kind());
        Error::new(ErrorKind::InvalidOperation, message)
    })
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Jinja2 asks for a length and an index, which strings and dicts have.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined()
        || matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
}

fn center(value: &Value, width: Option<i64>) -> Result<Value, Error> {
    let text = python_text::text(value)?;
    python_methods::pad("center", &text, width.unwrap_or(80), " ").map(Value::from)
}

fn string(value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() {
        Ok(value.clone())
    } else {
        python_text::text(value).map(Value::from)
    }
}

/// Attributes of Python's objects. A dict has none with the names of its items.
fn attr(value: &Value, name: &str) -> Result<Value, Error> {
    if value.kind() == ValueKind::Map { Ok(Value::UNDEFINED) } else { value.get_attr(name) }
}

fn word_count(value: &Value) -> usize {
    let text = value.to_string();
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).count()
}

fn replace(value: &Value, positional: &[Value], kwargs: Kwargs) -> Result<Value, Error> {
    python_methods::replace(&python_text::text(value)?, &Arguments::new(positional, kwargs))
}

fn truncate(value: &Value, positional: &[Value], kwargs: Kwargs) -> Result<Value, Error> {
    python_methods::truncate(&python_text::text(value)?, &Arguments::new(positional, kwargs))
}

fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    minijinja_contrib::globals::cycler(items.0)
}

/// Writes what `{{ }}` prints.
fn print(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if value.as_str().is_some() {
        return escape_formatter(out, state, value);
    }
    escape_formatter(out, state, &Value::from(python_text::text(value)?))
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Formats the error with its line and its causes.
fn failure(error: &Error) -> Failure {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    Failure::invalid(message)
}

impl Handle {
    fn new(source: &str) -> Result<Handle, Failure> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| failure(&e))?);
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(print);
        environment.set_unknown_method_callback(python_methods::call_method);
        environment.add_filter("tojson", python_text::tojson);
        environment.add_filter("length", length);
        environment.add_filter("count", length);
        environment.add_filter("string", string);
        environment.add_filter("center", center);
        environment.add_filter("attr", attr);
        environment.add_filter("replace", replace);
        environment.add_filter("truncate", truncate);
        environment.add_filter("wordcount", word_count);
        environment.add_filter("striptags", minijinja_contrib::filters::striptags);
        environment.add_test("iterable", is_iterable);
        environment.add_test("sequence", is_sequence);
        environment.add_test("callable", |value: &Value| value.kind() == ValueKind::Plain);
        environment.add_function("cycler", cycler);
        environment.add_function("joiner", minijinja_contrib::globals::joiner);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function(MODULO, |left: &Value, right: &Value| {
            python_methods::modulo(left, right)
        });
        let source = Rewriter::rewrite(source);
        environment.add_template_owned(NAME, source).map_err(|e| failure(&e))?;
        Ok(Handle { environment })
    }

    /// `now`: microseconds since 1970, for strftime_now.
    fn render(&self, variables: &[u8], now: i64) -> Result<String, Failure> {
        let variables: Value = serde_json::from_slice(variables).map_err(Failure::invalid)?;
        let strftime_now = Value::from_function(move |format: &str| {
            local_time::format_now(format, now).ok_or_else(|| {
                Error::new(ErrorKind::InvalidOperation, "strftime_now: the format is not valid")
            })
        });
        let functions = context! { strftime_now };
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(context! { ..variables, ..functions }))
            .map_err(|e| failure(&e))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_template_new(source: Bytes, out: *mut *mut Handle) -> Status {
    guard(|| unsafe {
        *out = Box::into_raw(Box::new(Handle::new(source.as_text()?)?));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_template_free(handle: *mut Handle) {
    unsafe { free_handle(handle) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_template_render(
    handle: *const Handle,
    variables: Bytes,
    now: i64,
    out: *mut Text,
) -> Status {
    guard(|| unsafe {
        *out = (*handle).render(variables.as_slice(), now)?.into_bytes().into();
        Ok(())
    })
}
