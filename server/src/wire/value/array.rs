//! Arrays of one dimension or several, read from their two forms.

use super::read::{ColumnReader, bad_binary, fixed};
use thalweg_catalog::array_text::{self, Part};
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType};

/// Adds the elements of an array's text; how many.
///
/// # Errors
/// `22P02` for bad text, and those of the elements.
pub(super) fn append_text(items: &mut ColumnReader, text: &str) -> SqlResult<usize> {
    let parts = array_text::parts(text)?;
    let count = parts.len();
    for part in parts {
        match part {
            Part::Array(inner) if items.is_array() => items.append_text(&inner)?,
            Part::Value(value) if !items.is_array() => items.append_text(&value)?,
            Part::Null if !items.is_array() => items.append_null(),
            Part::Array(_) => return Err(too_deep()),
            _ => return Err(array_text::uneven(text)),
        }
    }
    Ok(count)
}

/// Adds the elements of an array's binary form; how many there are in its outermost dimension.
///
/// # Errors
/// `22P03` for bad bytes, `42804` for elements of another type, and those of the elements.
pub(super) fn append_binary(items: &mut ColumnReader, bytes: &[u8]) -> SqlResult<usize> {
    let mut rest = Fields(bytes);
    let dimensions = usize::try_from(rest.i32()?).map_err(|_| bad_binary())?;
    array_text::check_dimensions(dimensions)?;
    let flags = rest.i32()?;
    let element = rest.i32()? as u32;
    if !matches!(flags, 0 | 1) {
        return Err(bad_binary());
    }
    check_element(items.element_type(), element)?;
    let mut lengths = vec![];
    for _ in 0..dimensions {
        lengths.push(usize::try_from(rest.i32()?).map_err(|_| bad_binary())?);
        let _lower_bound = rest.i32()?;
    }
    if lengths.is_empty() || lengths.contains(&0) {
        return if rest.0.is_empty() { Ok(0) } else { Err(bad_binary()) };
    }
    // Each element has at least its length: nothing is made room for that did not come.
    let count = lengths.iter().try_fold(1usize, |product, length| product.checked_mul(*length));
    if count.is_none_or(|count| count > rest.0.len() / 4) {
        return Err(bad_binary());
    }
    let outermost = items.append_dimensions(&lengths, &mut rest)?;
    if rest.0.is_empty() { Ok(outermost) } else { Err(bad_binary()) }
}

/// How many dimensions an array's binary form says that it has, at least 1.
///
/// # Errors
/// `22P03` if there are not even those bytes, `54000` for more than there may be.
pub fn dimensions_binary(bytes: &[u8]) -> SqlResult<usize> {
    let dimensions = usize::try_from(Fields(bytes).i32()?).map_err(|_| bad_binary())?;
    array_text::check_dimensions(dimensions)?;
    Ok(dimensions.max(1))
}

/// Elements of another type would be read as what they are not. Types of the system relations are carried by others.
fn check_element(wanted: &SqlType, found: u32) -> SqlResult<()> {
    match SqlType::from_oid(found) {
        Some(other) if other.oid() != wanted.oid() => Err(SqlError::new(
            SqlState::DatatypeMismatch,
            format!("binary data has array element type {found} ({other}) instead of expected {} ({wanted})", wanted.oid()),
        )),
        _ => Ok(()),
    }
}

pub(super) fn too_deep() -> SqlError {
    SqlError::unsupported("an array has more dimensions than its column")
        .with_hint("The number of dimensions is part of a column's type.")
}

pub(super) fn too_flat() -> SqlError {
    SqlError::unsupported("an array has fewer dimensions than its column")
        .with_hint("The number of dimensions is part of a column's type.")
}

/// Bytes that are read from the front.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> SqlResult<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(bad_binary)?;
        self.0 = rest;
        Ok(taken)
    }

    fn i32(&mut self) -> SqlResult<i32> {
        Ok(i32::from_be_bytes(fixed(self.take(4)?)?))
    }

    /// The bytes of the next element, none of NULL.
    pub(super) fn next_value(&mut self) -> SqlResult<Option<&'a [u8]>> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.take(usize::try_from(length).map_err(|_| bad_binary())?).map(Some),
        }
    }
}
