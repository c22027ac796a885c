//! `datetime.strftime` of Python, for a local time without a zone.

use std::ffi::CString;
use std::mem::MaybeUninit;

const MICROSECONDS: i64 = 1_000_000;
const MAX_BYTES: usize = 4096;

/// The format for C's strftime: Python writes microseconds for `%f`, and nothing for zones.
fn for_c(format: &str, microseconds: i64) -> String {
    let mut out = String::from(" "); // strftime returns 0 both for an error and an empty text.
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('%', Some('f')) => out += &format!("{microseconds:06}"),
            ('%', Some('z' | 'Z')) => {}
            ('%', Some(next)) => out.extend(['%', *next]),
            ('%', None) => out.push_str("%%"),
            _ => {
                out.push(c);
                continue;
            }
        }
        chars.next();
    }
    out
}

/// `now`: microseconds since 1970. None if the format is not valid or gives too long a text.
pub fn format_now(format: &str, now: i64) -> Option<String> {
    let format = CString::new(for_c(format, now.rem_euclid(MICROSECONDS))).ok()?;
    let seconds: libc::time_t = now.div_euclid(MICROSECONDS);
    let mut fields = MaybeUninit::<libc::tm>::uninit();
    let mut text = vec![0_u8; MAX_BYTES];
    let length = unsafe {
        if libc::localtime_r(&seconds, fields.as_mut_ptr()).is_null() {
            return None;
        }
        libc::strftime(text.as_mut_ptr().cast(), MAX_BYTES, format.as_ptr(), fields.as_ptr())
    };
    if length == 0 {
        return None;
    }
    text.truncate(length);
    Some(String::from_utf8_lossy(&text[1..]).into_owned())
}
