//! Whether one `jsonb` value is in another, and whether it has a key. The texts are taken to be in the form that `jsonb` keeps.

use super::get::{Kind, elements, entries, member, string};
use crate::error::SqlResult;

/// Whether a value has all that another has: of an object its keys with what their values have, of an array what some element
/// has, whatever the order. An array has a value that is no array or object if it is an element.
///
/// # Errors
/// `22P05` for a key that text can't hold.
pub fn contains(whole: &str, part: &str) -> SqlResult<bool> {
    match (Kind::of(whole), Kind::of(part)) {
        (Kind::Object, Kind::Object) => {
            for entry in entries(part) {
                let (key, wanted) = entry?;
                match member(whole, &key)? {
                    Some(found) if has(found, wanted)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (Kind::Array, Kind::Array) => {
            for wanted in elements(part).into_iter().flatten() {
                if !any(whole, wanted)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Kind::Array, Kind::Object) => Ok(false),
        (Kind::Array, _) => any(whole, part),
        _ => Ok(is_equal(whole, part)),
    }
}

/// Whether an element of an array has all that a value has.
fn any(array: &str, wanted: &str) -> SqlResult<bool> {
    for element in elements(array).into_iter().flatten() {
        if has(element, wanted)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// As [`contains`], for values within others: an array there has no value that is none.
fn has(found: &str, wanted: &str) -> SqlResult<bool> {
    if Kind::of(found) == Kind::of(wanted) { contains(found, wanted) } else { Ok(false) }
}

/// Whether two values that are neither arrays nor objects are the same. Numbers keep the places that they were written with.
fn is_equal(left: &str, right: &str) -> bool {
    let plain = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').len(),
        false => text.len(),
    };
    match (Kind::of(left), Kind::of(right)) {
        (Kind::Number, Kind::Number) => left[..plain(left)] == right[..plain(right)],
        _ => left == right,
    }
}

/// Whether an object has a key, an array a string as an element, or a value is that string.
///
/// # Errors
/// As [`contains`].
pub fn has_key(value: &str, key: &str) -> SqlResult<bool> {
    let is_key = |text: &str| Ok(Kind::of(text) == Kind::String && string(text)? == key);
    match Kind::of(value) {
        Kind::Object => Ok(member(value, key)?.is_some()),
        Kind::Array => {
            for element in elements(value).into_iter().flatten() {
                if is_key(element)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => is_key(value),
    }
}
