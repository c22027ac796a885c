//! The types of the C interface and the guard around every call. `../../ffi.h` declares the same
//! types: change both files together.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Values of `absl::StatusCode`.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    ResourceExhausted = 8,
    Internal = 13,
}

pub struct Failure {
    pub code: Code,
    pub message: String,
}

impl Failure {
    pub fn invalid(message: impl Display) -> Failure {
        Failure { code: Code::InvalidArgument, message: message.to_string() }
    }
}

#[repr(C)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Bytes {
        Bytes { data: bytes.as_ptr(), size: bytes.len() }
    }
}

impl Bytes {
    /// # Safety
    /// `data` points to `size` bytes that outlive the call.
    pub unsafe fn as_slice(&self) -> &[u8] {
        unsafe { borrow(self.data, self.size) }
    }

    /// # Safety
    /// The same as for `as_slice`.
    pub unsafe fn as_text(&self) -> Result<&str, Failure> {
        std::str::from_utf8(unsafe { self.as_slice() })
            .map_err(|e| Failure::invalid(format!("not UTF-8 from byte {}", e.valid_up_to())))
    }
}

/// # Safety
/// `data` must point to `count` elements that outlive the result. It may be null if `count` is 0.
pub unsafe fn borrow<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, count) } }
}

/// # Safety
/// `handle` must be null or come from `Box::into_raw`, and nothing may free it again.
pub unsafe fn free_handle<T>(handle: *mut T) {
    if !handle.is_null() {
        drop(unsafe { Box::from_raw(handle) });
    }
}

/// An array that C++ owns. C++ passes it to the matching free function.
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
}

pub type Text = Owned<u8>;
pub type Ids = Owned<u32>;

impl<T> From<Vec<T>> for Owned<T> {
    fn from(values: Vec<T>) -> Owned<T> {
        let size = values.len();
        Owned { data: Box::into_raw(values.into_boxed_slice()).cast(), size }
    }
}

impl<T> Owned<T> {
    /// # Safety
    /// `From` created `self`, and nothing frees it again.
    unsafe fn free(self) {
        if !self.data.is_null() {
            let slice = std::ptr::slice_from_raw_parts_mut(self.data, self.size);
            drop(unsafe { Box::from_raw(slice) });
        }
    }
}

#[repr(C)]
pub struct Status {
    code: i32,
    message: Text,
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}

/// Runs the body of a C function. Turns errors and panics into a status.
pub fn guard(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Failure { code: Code::Ok, message: String::new() },
        Ok(Err(failure)) => failure,
        Err(payload) => Failure {
            code: Code::Internal,
            message: format!("panic in the Rust code: {}", panic_text(&*payload)),
        },
    };
    Status { code: failure.code as i32, message: failure.message.into_bytes().into() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_text_free(text: Text) {
    unsafe { text.free() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn bastion_hub_ids_free(ids: Ids) {
    unsafe { ids.free() }
}
