//! The one hash of keys: routing between workers, state and rescaling all use it.
//!
//! It is part of the stored format: a stored key carries the [`VNode`](crate::VNode) of its hash, so it must give the
//! same value in every release. Two values hash alike whenever `=` holds between them: −0.0 as 0.0, every NaN as one.
//! Integers and floats go through MurmurHash3's 64-bit finaliser, bytes through XXH3.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, PrimitiveArray,
    StringArray, StringViewArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const NULL: u64 = 0x9e37_79b9_7f4a_7c15;
const COMBINE: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// MurmurHash3's finaliser: every input bit moves every output bit.
#[inline]
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The hash of bytes that stand for a whole key.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The hash of each row's key. No columns give every row the same hash: all rows of one group.
///
/// # Errors
/// If a column has a type that can't be hashed.
pub fn hash_columns(columns: &[ArrayRef], rows: usize) -> Result<Vec<u64>, ArrowError> {
    let mut hashes = vec![0u64; rows];
    for (place, column) in columns.iter().enumerate() {
        hash_column(column, place == 0, &mut hashes)?;
    }
    Ok(hashes)
}

/// Folds `value` into a row's hash. A single column's hash is its own, so that one-column keys cost one mix.
#[inline]
fn fold(hash: &mut u64, first: bool, value: u64) {
    *hash = if first { value } else { mix(hash.wrapping_mul(COMBINE) ^ value) };
}

fn hash_column(column: &ArrayRef, first: bool, hashes: &mut [u64]) -> Result<(), ArrowError> {
    macro_rules! primitive {
        ($t:ty, $bits:expr) => {
            fold_primitive::<$t>(column.as_primitive(), first, hashes, $bits)
        };
    }
    match column.data_type() {
        DataType::Boolean => fold_boolean(column.as_boolean(), first, hashes),
        DataType::Int8 => primitive!(Int8Type, |v| v as i64 as u64),
        DataType::Int16 => primitive!(Int16Type, |v| v as i64 as u64),
        DataType::Int32 => primitive!(Int32Type, |v| v as i64 as u64),
        DataType::Int64 => primitive!(Int64Type, |v| v as u64),
        DataType::UInt8 => primitive!(UInt8Type, u64::from),
        DataType::UInt16 => primitive!(UInt16Type, u64::from),
        DataType::UInt32 => primitive!(UInt32Type, u64::from),
        DataType::UInt64 => primitive!(UInt64Type, |v| v),
        DataType::Float32 => primitive!(Float32Type, |v| float_bits(f64::from(v))),
        DataType::Float64 => primitive!(Float64Type, float_bits),
        DataType::Date32 => primitive!(Date32Type, |v| v as i64 as u64),
        DataType::Date64 => primitive!(Date64Type, |v| v as u64),
        DataType::Time32(TimeUnit::Second) => primitive!(Time32SecondType, |v| v as i64 as u64),
        DataType::Time32(_) => primitive!(Time32MillisecondType, |v| v as i64 as u64),
        DataType::Time64(TimeUnit::Nanosecond) => primitive!(Time64NanosecondType, |v| v as u64),
        DataType::Time64(_) => primitive!(Time64MicrosecondType, |v| v as u64),
        DataType::Timestamp(TimeUnit::Second, _) => primitive!(TimestampSecondType, |v| v as u64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => primitive!(TimestampMillisecondType, |v| v as u64),
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive!(TimestampMicrosecondType, |v| v as u64),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive!(TimestampNanosecondType, |v| v as u64),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            primitive!(IntervalMonthDayNanoType, |v: arrow::datatypes::IntervalMonthDayNano| {
                mix((v.months as u64) << 32 | (v.days as u32 as u64)) ^ v.nanoseconds as u64
            })
        }
        DataType::Decimal128(_, _) => fold_decimal(column.as_primitive(), first, hashes),
        DataType::Utf8 => fold_strings(column.as_string(), first, hashes),
        DataType::Utf8View => fold_string_views(column.as_string_view(), first, hashes),
        DataType::Binary => fold_binaries(column.as_binary(), first, hashes),
        DataType::BinaryView => fold_binary_views(column.as_binary_view(), first, hashes),
        DataType::LargeUtf8 => hash_column(&cast(column, &DataType::Utf8)?, first, hashes)?,
        DataType::LargeBinary | DataType::FixedSizeBinary(_) => hash_column(&cast(column, &DataType::Binary)?, first, hashes)?,
        DataType::Dictionary(_, value) => hash_column(&cast(column, value)?, first, hashes)?,
        DataType::Null => hashes.iter_mut().for_each(|h| fold(h, first, NULL)),
        _ => fold_rows(column, first, hashes)?,
    }
    Ok(())
}

#[inline]
fn float_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        // Adding 0.0 turns −0.0 into 0.0 and nothing else.
        (value + 0.0).to_bits()
    }
}

fn fold_primitive<T: ArrowPrimitiveType>(
    column: &PrimitiveArray<T>,
    first: bool,
    hashes: &mut [u64],
    bits: impl Fn(T::Native) -> u64,
) {
    if column.null_count() == 0 {
        for (hash, value) in hashes.iter_mut().zip(column.values()) {
            fold(hash, first, mix(bits(*value)));
        }
    } else {
        for (hash, value) in hashes.iter_mut().zip(column.iter()) {
            fold(hash, first, value.map_or(NULL, |v| mix(bits(v))));
        }
    }
}

fn fold_boolean(column: &BooleanArray, first: bool, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(column.iter()) {
        fold(hash, first, value.map_or(NULL, |v| mix(u64::from(v))));
    }
}

fn fold_decimal(column: &Decimal128Array, first: bool, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(column.iter()) {
        fold(hash, first, value.map_or(NULL, |v| mix(mix(v as u64) ^ (v >> 64) as u64)));
    }
}

fn fold_strings(column: &StringArray, first: bool, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(column.iter()) {
        fold(hash, first, value.map_or(NULL, |v| hash_bytes(v.as_bytes())));
    }
}

fn fold_string_views(column: &StringViewArray, first: bool, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(column.iter()) {
        fold(hash, first, value.map_or(NULL, |v| hash_bytes(v.as_bytes())));
    }
}

fn fold_binaries(column: &BinaryArray, first: bool, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(column.iter()) {
        fold(hash, first, value.map_or(NULL, hash_bytes));
    }
}

fn fold_binary_views(column: &BinaryViewArray, first: bool, hashes: &mut [u64]) {
    for (hash, value) in hashes.iter_mut().zip(column.iter()) {
        fold(hash, first, value.map_or(NULL, hash_bytes));
    }
}

/// Lists and records: by their row encoding.
fn fold_rows(column: &ArrayRef, first: bool, hashes: &mut [u64]) -> Result<(), ArrowError> {
    let converter = RowConverter::new(vec![SortField::new(column.data_type().clone())])?;
    let rows = converter.convert_columns(&[Arc::clone(column)])?;
    for (place, hash) in hashes.iter_mut().enumerate() {
        fold(hash, first, if column.is_null(place) { NULL } else { hash_bytes(rows.row(place).as_ref()) });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
