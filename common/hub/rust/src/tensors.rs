//! Reads the header of a safetensors file. The safetensors crate checks the header. If it reports
//! an error, this module finds the tensor that caused it.

use std::str::FromStr;

use safetensors::SafeTensors;
use safetensors::tensor::SafeTensorError;
use serde_json::{Value, json};

use crate::boundary::{Bytes, Failure, Status, Text, guard};

/// Bytes of the length field before the header.
const PREFIX: usize = 8;

/// The problem of one entry of the header, if any. The crate's errors rarely name the entry.
fn problem_of(name: &str, entry: &Value, data_bytes: u64) -> Option<String> {
    let offset = |index: usize| entry.get("data_offsets")?.get(index)?.as_u64();
    let (Some(begin), Some(end)) = (offset(0), offset(1)) else {
        return Some(format!("tensor '{name}' has no pair of data_offsets"));
    };
    if begin > end {
        return Some(format!("tensor '{name}' begins at byte {begin} after its end {end}"));
    }
    if end > data_bytes {
        return Some(format!(
            "tensor '{name}' ends at byte {end} of the data, but the file has {data_bytes}; is it truncated?"
        ));
    }
    let dtype = entry.get("dtype").and_then(Value::as_str).unwrap_or("none");
    let Ok(known) = serde_json::from_value::<safetensors::Dtype>(Value::from(dtype)) else {
        return Some(format!("tensor '{name}' has the unknown dtype '{dtype}'"));
    };
    let shape = entry.get("shape").and_then(Value::as_array)?;
    let elements = shape
        .iter()
        .try_fold(1u64, |product, dim| dim.as_u64().and_then(|d| product.checked_mul(d)));
    let bits = elements.and_then(|n| n.checked_mul(known.bitsize() as u64));
    if bits != (end - begin).checked_mul(8) {
        let shape = Value::from(shape.clone());
        return Some(format!(
            "tensor '{name}' of shape {shape} and dtype {dtype} does not have {} bytes",
            end - begin
        ));
    }
    None
}

/// The problem of the first tensor, in the order of the data, that explains the error.
fn find_problem(file: &[u8]) -> Option<String> {
    let length = u64::from_le_bytes(file.get(..PREFIX)?.try_into().ok()?);
    let stop = usize::try_from(length).ok()?.checked_add(PREFIX)?;
    let Some(text) = file.get(PREFIX..stop) else {
        return Some(format!(
            "a header of {length} bytes in a file of {}; is it truncated?",
            file.len()
        ));
    };
    let header: Value = Value::from_str(std::str::from_utf8(text).ok()?).ok()?;
    let mut entries: Vec<(&String, &Value)> =
        header.as_object()?.iter().filter(|(name, _)| *name != "__metadata__").collect();
    let begin = |entry: &Value| entry.get("data_offsets")?.get(0)?.as_u64();
    entries.sort_by_key(|(_, entry)| begin(entry));
    let data_bytes = (file.len() - stop) as u64;
    let mut expected = 0;
    for (name, entry) in entries {
        if let Some(found) = problem_of(name, entry, data_bytes) {
            return Some(found);
        }
        let begin = begin(entry)?;
        if begin != expected {
            let kind = if begin < expected { "overlaps the one before it" } else { "leaves a gap" };
            return Some(format!("tensor '{name}' {kind}: begins at {begin}, expected {expected}"));
        }
        expected = entry["data_offsets"][1].as_u64()?;
    }
    Some(format!("the tensors end at byte {expected} of {data_bytes}"))
}

fn explain(file: &[u8], error: &SafeTensorError) -> Failure {
    match find_problem(file) {
        Some(found) => Failure::invalid(format!("{error}: {found}")),
        None => Failure::invalid(error),
    }
}

fn contents(file: &[u8]) -> Result<String, Failure> {
    let (header, metadata) = SafeTensors::read_metadata(file).map_err(|e| explain(file, &e))?;
    let base = PREFIX + header;
    let mut table = serde_json::Map::new();
    for (name, info) in metadata.tensors() {
        let (begin, end) = info.data_offsets;
        table.insert(
            name,
            json!({"dtype": info.dtype, "shape": info.shape, "begin": base + begin, "end": base + end}),
        );
    }
    Ok(Value::Object(table).to_string())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_safetensors_contents(file: Bytes, out: *mut Text) -> Status {
    guard(|| unsafe {
        *out = contents(file.as_slice())?.into_bytes().into();
        Ok(())
    })
}
