//! `read_time(text, 'type', 'zone')`: a date, time, timestamp or interval, read as Postgres does. Casts of text end in it.

use super::error;
use arrow::array::{
    ArrayRef, AsArray, Date32Array, IntervalMonthDayNanoArray, StringArray, Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, FieldRef, IntervalUnit, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::datetime::{SessionTimeZone, read};
use thalweg_catalog::{SqlError, SqlResult, SqlType};

/// The text as a value of this type, if it is one that the function reads. `zone` is where times without a zone are.
pub(crate) fn read_time(text: Expr, to: &DataType, zone: &str) -> Option<Expr> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function()));
    let is_read = matches!(
        to,
        DataType::Date32
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond, _)
            | DataType::Interval(IntervalUnit::MonthDayNano)
    );
    let sql_type = SqlType::from_arrow(to).ok().filter(|_| is_read)?;
    let literal = |text: &str| Expr::Literal(ScalarValue::Utf8(Some(text.to_string())), None);
    Some(FUNCTION.call(vec![text, literal(&sql_type.to_string()), literal(zone)]))
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![function()]
}

fn function() -> ScalarUDF {
    ScalarUDF::from(ReadTime { signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ReadTime {
    signature: Signature,
}

impl ScalarUDFImpl for ReadTime {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "read_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.len() == 3 { Ok(vec![DataType::Utf8; 3]) } else { super::wrong_types(self.name(), types) }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        super::wrong_types(self.name(), types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let name = args.scalar_arguments.get(1).copied().flatten();
        let Some(sql_type) = named_type(name) else { return Err(error(unwritten())) };
        let nullable = args.arg_fields.first().is_none_or(|f| f.is_nullable());
        Ok(Arc::new(sql_type.to_field(self.name(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (ColumnarValue::Scalar(name), ColumnarValue::Scalar(ScalarValue::Utf8(Some(zone)))) = (&args.args[1], &args.args[2])
        else {
            return Err(error(unwritten()));
        };
        let Some(sql_type) = named_type(Some(name)) else { return Err(error(unwritten())) };
        let zone = SessionTimeZone::parse(zone).unwrap_or(SessionTimeZone::UTC);
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let texts = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result = read_all(texts.as_string::<i32>(), &sql_type, &zone).map_err(error)?;
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn unwritten() -> SqlError {
    SqlError::invalid_parameter("the type and zone of read_time must be written out")
}

fn named_type(name: Option<&ScalarValue>) -> Option<SqlType> {
    match name {
        Some(ScalarValue::Utf8(Some(name))) => SqlType::parse(name),
        _ => None,
    }
}

fn read_all(texts: &StringArray, sql_type: &SqlType, zone: &SessionTimeZone) -> SqlResult<ArrayRef> {
    fn each<T, A: FromIterator<Option<T>>>(texts: &StringArray, read: impl Fn(&str) -> SqlResult<T>) -> SqlResult<A> {
        texts.iter().map(|text| text.map(&read).transpose()).collect()
    }
    Ok(match sql_type {
        SqlType::Date => Arc::new(each::<_, Date32Array>(texts, read::date)?),
        SqlType::Time => Arc::new(each::<_, Time64MicrosecondArray>(texts, read::time)?),
        SqlType::Timestamp => Arc::new(each::<_, TimestampMicrosecondArray>(texts, read::timestamp)?),
        SqlType::TimestampTz => {
            let moments = each::<_, TimestampMicrosecondArray>(texts, |text| read::timestamptz(text, zone))?;
            Arc::new(moments.with_data_type(SqlType::TimestampTz.to_arrow()))
        }
        SqlType::Interval => Arc::new(each::<_, IntervalMonthDayNanoArray>(texts, read::interval)?),
        other => return Err(SqlError::internal(format!("read_time reads no {other}"))),
    })
}
