//! Chat templates: Jinja with the settings of `transformers`.

use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::boundary::{Bytes, Failure, Status, Text, free_handle, guard};

const NAME: &str = "chat_template";

/// Maximum number of steps to render a template. A long conversation needs far fewer. The limit
/// stops templates with huge nested loops.
const FUEL: u64 = 10_000_000;

pub struct Handle {
    environment: Environment<'static>,
}

/// Python's `json.dumps` puts a space after each comma and colon.
struct PythonSpacing;

impl Formatter for PythonSpacing {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, w: &mut W) -> io::Result<()> {
        w.write_all(b": ")
    }
}

/// `tojson` as in `transformers`: without the HTML escapes of Jinja's filter.
fn tojson(value: Value, kwargs: Kwargs) -> Result<Value, Error> {
    kwargs.get::<Option<bool>>("ensure_ascii")?;
    kwargs.assert_all_used()?;
    let mut out = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut out, PythonSpacing))
        .map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    let text = String::from_utf8(out)
        .map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(Value::from_safe_string(text))
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
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", tojson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_template_owned(NAME, source.to_owned()).map_err(|e| failure(&e))?;
        Ok(Handle { environment })
    }

    fn render(&self, variables: &[u8]) -> Result<String, Failure> {
        let variables: Value = serde_json::from_slice(variables).map_err(Failure::invalid)?;
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(variables))
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
    out: *mut Text,
) -> Status {
    guard(|| unsafe {
        *out = (*handle).render(variables.as_slice())?.into_bytes().into();
        Ok(())
    })
}
