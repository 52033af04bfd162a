//! Values as text the way Postgres prints them, and what names types and versions.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StringBuilder};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::datetime::calendar::{DAY_US, civil_of_days, to_chrono};
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{CarriedType, SqlResult, SqlType, bytea};

const SECOND_US: i64 = 1_000_000;

/// What `version()` answers. Clients read the number behind the first word.
pub const VERSION: &str = concat!("PostgreSQL 15.0 (Thalweg ", env!("CARGO_PKG_VERSION"), ")");

/// Whether a cast to text must be ours.
pub(crate) fn prints_differently(from: &DataType) -> bool {
    let is_unsized_numeric = *from == DataType::Decimal128(NUMERIC_DEFAULT.0, NUMERIC_DEFAULT.1);
    is_unsized_numeric || matches!(from, DataType::Timestamp(TimeUnit::Microsecond, _) | DataType::Float32 | DataType::Float64)
}

/// The function that casts to text; moments as in UTC.
pub(crate) fn to_text() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(text_in(None)));
    Arc::clone(&FUNCTION)
}

/// The text of a moment, as clocks in this zone show it.
pub(crate) fn moment_to_text(moment: Expr, zone: &str) -> Expr {
    text_in(Some(zone.to_string())).call(vec![moment])
}

fn text_in(zone: Option<String>) -> ScalarUDF {
    ScalarUDF::from(ToText { zone, signature: Signature::any(1, Volatility::Immutable) })
}

/// The bytes that a text stands for.
pub(crate) fn bytes_of(text: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(read_bytes())));
    FUNCTION.call(vec![text])
}

fn read_bytes() -> ReadBytes {
    ReadBytes { signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable) }
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        to_text().as_ref().clone(),
        ScalarUDF::from(read_bytes()),
        ScalarUDF::from(TypeOf { signature: Signature::any(1, Volatility::Immutable) }),
        ScalarUDF::from(Version { signature: Signature::nullary(Volatility::Immutable) }),
    ]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ToText {
    /// Where moments are shown; none is UTC.
    zone: Option<String>,
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
        let zone = self.zone.as_deref().and_then(SessionTimeZone::parse).unwrap_or(SessionTimeZone::UTC);
        let mut text = StringBuilder::with_capacity(array.len(), array.len() * 20);
        let mut buffer = String::with_capacity(32);
        for row in 0..array.len() {
            if array.is_null(row) {
                text.append_null();
                continue;
            }
            buffer.clear();
            print_value(&array, row, &zone, &mut buffer)?;
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

fn print_value(array: &ArrayRef, row: usize, zone: &SessionTimeZone, out: &mut String) -> Result<()> {
    match array.data_type() {
        DataType::Float32 => print_float(f64::from(array.as_primitive::<Float32Type>().value(row)), 6, out, true),
        DataType::Float64 => print_float(array.as_primitive::<Float64Type>().value(row), 15, out, false),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            print_timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row), "", out);
        }
        DataType::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            let us = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let offset = zone.offset_at(&to_chrono(us));
            let local = us.saturating_add(i64::from(offset) * SECOND_US);
            print_timestamp(local, &shown_offset(offset), out);
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

/// `2024-01-31 10:00:00.5+01`, with ` BC` behind it in the years before Christ.
fn print_timestamp(us: i64, offset: &str, out: &mut String) {
    let (days, clock) = (us.div_euclid(DAY_US), us.rem_euclid(DAY_US));
    let (year, month, day) = civil_of_days(days);
    let (shown, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let seconds = clock / SECOND_US;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    // Writing to a string can't fail.
    let _ = write!(out, "{shown:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    if clock % SECOND_US > 0 {
        let digits = format!("{:06}", clock % SECOND_US);
        let _ = write!(out, ".{}", digits.trim_end_matches('0'));
    }
    out.push_str(offset);
    out.push_str(era);
}

/// Seconds east of UTC as Postgres shows them: `+02`, `-03:30`.
fn shown_offset(seconds: i32) -> String {
    let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (minutes, rest) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
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
struct ReadBytes {
    signature: Signature,
}

impl ScalarUDFImpl for ReadBytes {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "read_bytes"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Binary)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let read = texts.as_string::<i32>().iter().map(|text| text.map(bytea::read).transpose());
        let result: ArrayRef = Arc::new(read.collect::<SqlResult<BinaryArray>>().map_err(error)?);
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
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
            Some(Ok(found)) => without_modifier(&found),
            _ => "unknown".to_string(),
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    }
}

/// A type's name without its modifier.
fn without_modifier(sql_type: &SqlType) -> String {
    match sql_type {
        SqlType::Numeric(_) => "numeric".to_string(),
        SqlType::Varchar(_) => "character varying".to_string(),
        SqlType::Char(_) => "character".to_string(),
        SqlType::Carried(CarriedType::Bit(_)) => "bit".to_string(),
        SqlType::Carried(of) => of.without_length().to_string(),
        SqlType::Array(item) => format!("{}[]", without_modifier(item)),
        other => other.to_string(),
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
