//! Values as text the way Postgres prints them, and what names types and versions.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType};
use chrono::{DateTime, Timelike};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::{encoding, string, unicode};
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit, when,
};
use std::any::Any;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{SqlError, SqlState, SqlType};

/// What `version()` answers. Clients read the number behind the first word.
pub const VERSION: &str = concat!("PostgreSQL 15.0 (Thalweg ", env!("CARGO_PKG_VERSION"), ")");

/// Whether a cast to text must be ours.
pub(crate) fn prints_differently(from: &DataType) -> bool {
    let is_unsized_numeric = *from == DataType::Decimal128(NUMERIC_DEFAULT.0, NUMERIC_DEFAULT.1);
    is_unsized_numeric || matches!(from, DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Float32 | DataType::Float64)
}

/// The function that casts to text.
pub(crate) fn to_text() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(ToText { signature: Signature::any(1, Volatility::Immutable) })));
    Arc::clone(&FUNCTION)
}

/// The bytes that a text stands for: hexadecimal digits after `\x`, else the text's own.
pub(crate) fn bytes_of(text: Expr) -> Result<Expr> {
    let text = Expr::Cast(Cast::new(Box::new(text), DataType::Utf8));
    let is_hex = string::starts_with().call(vec![text.clone(), lit("\\x")]);
    let digits = unicode::substr().call(vec![text.clone(), lit(3i64)]);
    // `decode` is bound after types were made to agree, and takes bytes.
    let digits = Expr::Cast(Cast::new(Box::new(digits), DataType::Binary));
    let bytes = encoding::decode().call(vec![digits, lit("hex")]);
    let bytes = Expr::Cast(Cast::new(Box::new(bytes), DataType::Binary));
    let own = Expr::Cast(Cast::new(Box::new(text), DataType::Binary));
    when(is_hex, bytes).otherwise(own)
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        to_text().as_ref().clone(),
        ScalarUDF::from(TypeOf { signature: Signature::any(1, Volatility::Immutable) }),
        ScalarUDF::from(Version { signature: Signature::nullary(Volatility::Immutable) }),
    ]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ToText {
    signature: Signature,
}

impl ScalarUDFImpl for ToText {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "to_text"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.first().map(|a| a.schema_name().to_string()).unwrap_or_default())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let mut text = StringBuilder::with_capacity(array.len(), array.len() * 20);
        let mut buffer = String::with_capacity(32);
        for row in 0..array.len() {
            if array.is_null(row) {
                text.append_null();
                continue;
            }
            buffer.clear();
            print_value(&array, row, &mut buffer)?;
            text.append_value(&buffer);
        }
        let result: ArrayRef = Arc::new(text.finish());
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn print_value(array: &ArrayRef, row: usize, out: &mut String) -> Result<()> {
    match array.data_type() {
        DataType::Float32 => print_float(f64::from(array.as_primitive::<Float32Type>().value(row)), 6, out, true),
        DataType::Float64 => print_float(array.as_primitive::<Float64Type>().value(row), 15, out, false),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            print_timestamp(micros, out)?;
            if zone.is_some() {
                out.push_str("+00");
            }
        }
        // Without a size a numeric shows the decimal places that it needs.
        DataType::Decimal128(..) => {
            let digits = array.as_primitive::<Decimal128Type>().value_as_string(row);
            out.push_str(digits.trim_end_matches('0').trim_end_matches('.'));
        }
        other => return super::wrong_types("to_text", std::slice::from_ref(other)),
    }
    Ok(())
}

/// `2024-01-31 10:00:00.5`.
fn print_timestamp(micros: i64, out: &mut String) -> Result<()> {
    let time = DateTime::from_timestamp_micros(micros)
        .ok_or_else(|| error(SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range")))?;
    // Writing to a string can't fail.
    let _ = write!(out, "{}", time.format("%Y-%m-%d %H:%M:%S"));
    let fraction = time.nanosecond() / 1_000;
    if fraction > 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
    Ok(())
}

/// The shortest digits that read back as the same number; with an exponent where Postgres has one.
fn print_float(value: f64, digits_max: i32, out: &mut String, is_single: bool) {
    if value.is_nan() {
        return out.push_str("NaN");
    }
    if value.is_infinite() {
        return out.push_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = if is_single { format!("{:e}", value as f32) } else { format!("{value:e}") };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && (exponent < -4 || exponent >= digits_max) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    } else if is_single {
        let _ = write!(out, "{}", value as f32);
    } else {
        let _ = write!(out, "{value}");
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match args.arg_fields.first().map(|field| SqlType::from_field(field)) {
            // A type without its modifier.
            Some(Ok(SqlType::Numeric(_))) => "numeric".to_string(),
            Some(Ok(SqlType::Varchar(_))) => "character varying".to_string(),
            Some(Ok(found)) => found.to_string(),
            _ => "unknown".to_string(),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Version {
    signature: Signature,
}

impl ScalarUDFImpl for Version {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "version"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(VERSION.to_string()))))
    }
}
