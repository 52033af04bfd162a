//! `tumble_start`, `tumble_end` and `hop_starts`: the windows that a point in time falls into.
//!
//! A window is `[start, start + size)`; starts are at `offset + n * slide`, for negative times too. Sizes are in
//! microseconds. `TUMBLE` and `HOP` in `FROM` are made of these; see `rewrite`.

use super::error;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, TimestampMicrosecondArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlState};

/// What a user is told about a window over something that is no time. DataFusion keeps the text of such errors alone.
pub(crate) const WINDOW_TIME_TYPE: &str = "the time column of a window must be a timestamp";

/// Which of the functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WindowFunction {
    /// `tumble_start(time, size, offset)`.
    TumbleStart,
    /// `tumble_end(time, size, offset)`.
    TumbleEnd,
    /// `hop_starts(time, slide, size, offset)`: the starts of all windows that the time falls into, in order.
    HopStarts,
}

/// A call of one of the functions with its sizes written out, as the lowering looks for it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowExpr<'a> {
    /// Which one.
    pub function: WindowFunction,
    /// The time.
    pub time: &'a Expr,
    /// Distance between starts, in microseconds.
    pub slide_us: i64,
    /// Size of a window, in microseconds.
    pub size_us: i64,
    /// Where windows start, in microseconds from 1970.
    pub offset_us: i64,
}

/// The call that an expression is, if it is one.
pub fn window_expr(expr: &Expr) -> Option<WindowExpr<'_>> {
    let Expr::ScalarFunction(call) = expr else { return None };
    let function = call.func.inner().as_any().downcast_ref::<Window>()?.function;
    let number = |index: usize| match call.args.get(index)? {
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => Some(*value),
        _ => None,
    };
    let time = call.args.first()?;
    Some(match function {
        WindowFunction::TumbleStart | WindowFunction::TumbleEnd => {
            WindowExpr { function, time, slide_us: number(1)?, size_us: number(1)?, offset_us: number(2)? }
        }
        WindowFunction::HopStarts => {
            WindowExpr { function, time, slide_us: number(1)?, size_us: number(2)?, offset_us: number(3)? }
        }
    })
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [WindowFunction::TumbleStart, WindowFunction::TumbleEnd, WindowFunction::HopStarts].into_iter().map(udf).collect()
}

fn udf(function: WindowFunction) -> ScalarUDF {
    ScalarUDF::from(Window { function, signature: Signature::user_defined(Volatility::Immutable) })
}

/// `tumble_start(time, size, offset)`, for a plan.
pub(crate) fn tumble_start() -> Arc<ScalarUDF> {
    Arc::new(udf(WindowFunction::TumbleStart))
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Window {
    function: WindowFunction,
    signature: Signature,
}

impl ScalarUDFImpl for Window {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.function {
            WindowFunction::TumbleStart => "tumble_start",
            WindowFunction::TumbleEnd => "tumble_end",
            WindowFunction::HopStarts => "hop_starts",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let numbers = if self.function == WindowFunction::HopStarts { 3 } else { 2 };
        if types.len() != numbers + 1 {
            return super::wrong_types(self.name(), types);
        }
        let time = match &types[0] {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            DataType::Date32 | DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
            _ => {
                return Err(error(SqlError::new(SqlState::DatatypeMismatch, WINDOW_TIME_TYPE)));
            }
        };
        Ok(std::iter::once(time).chain(std::iter::repeat_n(DataType::Int64, numbers)).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let time = types.first().cloned().unwrap_or(DataType::Timestamp(TimeUnit::Microsecond, None));
        Ok(match self.function {
            WindowFunction::TumbleStart | WindowFunction::TumbleEnd => time,
            WindowFunction::HopStarts => DataType::List(Arc::new(Field::new_list_field(time, true))),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let numbers = args.args[1..].iter().map(whole_number).collect::<Result<Vec<_>>>()?;
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let times = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let result: ArrayRef = match (self.function, numbers.as_slice()) {
            (WindowFunction::TumbleStart, [size, offset]) => map(times, |t| window_start(t, *size, *offset))?,
            (WindowFunction::TumbleEnd, [size, offset]) => map(times, |t| window_start(t, *size, *offset)?.checked_add(*size))?,
            (WindowFunction::HopStarts, [slide, size, offset]) => hop_starts(times, *slide, *size, *offset)?,
            _ => return super::wrong_types(self.name(), &[]),
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn whole_number(value: &ColumnarValue) -> Result<i64> {
    match value {
        ColumnarValue::Scalar(ScalarValue::Int64(Some(value))) => Ok(*value),
        _ => Err(error(SqlError::invalid_parameter("the size of a window must be written out"))),
    }
}

/// The start of the window that a time falls into; none outside what a timestamp can hold.
fn window_start(time: i64, slide: i64, offset: i64) -> Option<i64> {
    if slide <= 0 {
        return None;
    }
    let since = time.checked_sub(offset)?;
    time.checked_sub(since.rem_euclid(slide))
}

fn out_of_range() -> datafusion::error::DataFusionError {
    error(SqlError::new(SqlState::DatetimeFieldOverflow, "timestamp out of range"))
}

fn map(times: &TimestampMicrosecondArray, value: impl Fn(i64) -> Option<i64>) -> Result<ArrayRef> {
    let mut values = Vec::with_capacity(times.len());
    for row in 0..times.len() {
        values.push(if times.is_null(row) { 0 } else { value(times.value(row)).ok_or_else(out_of_range)? });
    }
    let result = TimestampMicrosecondArray::new(ScalarBuffer::from(values), times.nulls().cloned());
    Ok(Arc::new(result.with_timezone_opt(times.timezone().map(Arc::<str>::from))))
}

fn hop_starts(times: &TimestampMicrosecondArray, slide: i64, size: i64, offset: i64) -> Result<ArrayRef> {
    let mut starts = Vec::with_capacity(times.len() * (size / slide.max(1)).clamp(1, 64) as usize);
    let mut offsets = Vec::with_capacity(times.len() + 1);
    offsets.push(0i32);
    for row in 0..times.len() {
        if times.is_valid(row) {
            let time = times.value(row);
            let last = window_start(time, slide, offset).ok_or_else(out_of_range)?;
            // How many windows before the last one still hold the time.
            let earlier = (size - 1 - (time - last)).div_euclid(slide).max(-1);
            for back in (0..=earlier).rev() {
                starts.push(last.checked_sub(back * slide).ok_or_else(out_of_range)?);
            }
        }
        let end = i32::try_from(starts.len())
            .map_err(|_| error(SqlError::new(SqlState::ProgramLimitExceeded, "too many windows in one batch")))?;
        offsets.push(end);
    }
    let values = TimestampMicrosecondArray::from(starts).with_timezone_opt(times.timezone().map(Arc::<str>::from));
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let nulls: Option<NullBuffer> = times.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::new(ScalarBuffer::from(offsets)), Arc::new(values), nulls)?))
}
