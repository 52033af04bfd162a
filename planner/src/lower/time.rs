//! How expressions carry a watermark: what follows for their value when no row below some time is to come.
//!
//! Sound because every form here is monotone: if `ts >= w` for all rows to come, then `f(ts) >= f(w)` for them too.

use super::expressions::{Physical, as_call, as_column};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator as BinaryOperator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal};
use thalweg_plan::WatermarkTransform;

const DAY_US: i64 = 86_400_000_000;

/// The column whose watermark decides that of the expression, and how. None if the expression is not known to be monotone.
pub(super) fn derived(expr: &Physical) -> Option<(usize, WatermarkTransform)> {
    if let Some(column) = as_column(expr) {
        return Some((column, WatermarkTransform::Identity));
    }
    let any = expr.as_any();
    if let Some(cast) = any.downcast_ref::<CastExpr>() {
        return matches!(cast.cast_type(), DataType::Timestamp(..)).then(|| derived(cast.expr())).flatten();
    }
    if let Some(binary) = any.downcast_ref::<BinaryExpr>() {
        return shifted(binary);
    }
    let (name, args) = as_call(expr)?;
    let (time, window) = window_of(name, args)?;
    let (column, inner) = derived(time)?;
    Some((column, then(&inner, &window)?))
}

/// Whether a watermark can stand on a column of this type: on times, and on lists of them on the way to `Unnest`.
pub(super) fn carries_watermark(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) => carries_watermark(item.data_type()),
        other => is_time(other),
    }
}

/// Whether a value of this type is a time in the unit that watermarks have.
pub(super) fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, _))
}

/// By how much later than the row's own time a transform puts a value: the end of a window has the most.
pub(super) fn shift_of(transform: &WatermarkTransform) -> i64 {
    match transform {
        WatermarkTransform::Identity => 0,
        WatermarkTransform::Shift(by) | WatermarkTransform::Window { shift_us: by, .. } => *by,
    }
}

fn shifted(binary: &BinaryExpr) -> Option<(usize, WatermarkTransform)> {
    let (time, by) = match (binary.op(), interval_us(binary.left()), interval_us(binary.right())) {
        (BinaryOperator::Plus, None, Some(by)) => (binary.left(), by),
        (BinaryOperator::Plus, Some(by), None) => (binary.right(), by),
        (BinaryOperator::Minus, None, Some(by)) => (binary.left(), by.checked_neg()?),
        _ => return None,
    };
    let (column, inner) = derived(time)?;
    Some((column, then(&inner, &WatermarkTransform::Shift(by))?))
}

/// One transform after the other, where that is one transform.
fn then(first: &WatermarkTransform, second: &WatermarkTransform) -> Option<WatermarkTransform> {
    use WatermarkTransform::{Identity, Shift, Window};
    Some(match (first, second) {
        (Identity, any) | (any, Identity) => any.clone(),
        (Shift(a), Shift(b)) => Shift(a.checked_add(*b)?),
        (Window { slide_us, offset_us, shift_us }, Shift(by)) => {
            Window { slide_us: *slide_us, offset_us: *offset_us, shift_us: shift_us.checked_add(*by)? }
        }
        // The window of a shifted time is the shifted window of the time, with its grid shifted back.
        (Shift(by), Window { slide_us, offset_us, shift_us }) => {
            Window { slide_us: *slide_us, offset_us: offset_us.checked_sub(*by)?, shift_us: shift_us.checked_add(*by)? }
        }
        (Window { .. }, Window { .. }) => return None,
    })
}

/// The time and the window, for a function that rounds a time down to the start (or up to the end) of one.
fn window_of<'a>(name: &str, args: &'a [Physical]) -> Option<(&'a Physical, WatermarkTransform)> {
    let window = |slide_us, offset_us, shift_us| WatermarkTransform::Window { slide_us, offset_us, shift_us };
    let positive = |expr: &Physical| length_us(expr).filter(|us| *us > 0);
    let offset = |place: usize| args.get(place).map_or(Some(0), length_us);
    match name {
        "tumble_start" => Some((args.first()?, window(positive(args.get(1)?)?, offset(2)?, 0))),
        "tumble_end" => {
            let size = positive(args.get(1)?)?;
            Some((args.first()?, window(size, offset(2)?, size)))
        }
        "hop_starts" => {
            let (slide, size) = (positive(args.get(1)?)?, positive(args.get(2)?)?);
            // The first of the windows that hold a time starts this much before the last one.
            Some((args.first()?, window(slide, offset(3)?, slide.checked_sub(size)?)))
        }
        "date_trunc" => {
            let (slide, start) = truncation(args.first()?)?;
            Some((args.get(1)?, window(slide, start, 0)))
        }
        "date_bin" => {
            let origin = args.get(2).map_or(Some(0), time_us)?;
            Some((args.get(1)?, window(positive(args.first()?)?, origin, 0)))
        }
        _ => None,
    }
}

/// The length of the unit that `date_trunc` rounds to, and where one starts; none for units of varying length.
fn truncation(unit: &Physical) -> Option<(i64, i64)> {
    let text = literal(unit)?.try_as_str()??.to_lowercase();
    Some(match text.as_str() {
        "microsecond" => (1, 0),
        "millisecond" => (1_000, 0),
        "second" => (1_000_000, 0),
        "minute" => (60_000_000, 0),
        "hour" => (3_600_000_000, 0),
        "day" => (DAY_US, 0),
        // 1970-01-01 was a Thursday; weeks start on Monday.
        "week" => (7 * DAY_US, 4 * DAY_US),
        _ => return None,
    })
}

fn literal(expr: &Physical) -> Option<&ScalarValue> {
    expr.as_any().downcast_ref::<Literal>().map(Literal::value)
}

/// A constant length of time: an interval, or a number of microseconds, which our window functions take.
fn length_us(expr: &Physical) -> Option<i64> {
    match literal(expr)? {
        ScalarValue::Int64(us) => *us,
        _ => interval_us(expr),
    }
}

/// The length of a constant interval in microseconds; none if it has months, which vary.
fn interval_us(expr: &Physical) -> Option<i64> {
    match literal(expr)? {
        ScalarValue::IntervalMonthDayNano(Some(i)) if i.months == 0 && i.nanoseconds % 1_000 == 0 => {
            i64::from(i.days).checked_mul(DAY_US)?.checked_add(i.nanoseconds / 1_000)
        }
        ScalarValue::IntervalDayTime(Some(i)) => {
            i64::from(i.days).checked_mul(DAY_US)?.checked_add(i64::from(i.milliseconds) * 1_000)
        }
        ScalarValue::DurationMicrosecond(us) => *us,
        ScalarValue::DurationMillisecond(ms) => ms.and_then(|ms| ms.checked_mul(1_000)),
        ScalarValue::DurationSecond(s) => s.and_then(|s| s.checked_mul(1_000_000)),
        ScalarValue::DurationNanosecond(Some(ns)) if ns % 1_000 == 0 => Some(ns / 1_000),
        _ => None,
    }
}

fn time_us(expr: &Physical) -> Option<i64> {
    match literal(expr)? {
        ScalarValue::TimestampMicrosecond(us, _) => *us,
        ScalarValue::TimestampNanosecond(Some(ns), _) if ns % 1_000 == 0 => Some(ns / 1_000),
        ScalarValue::TimestampMillisecond(ms, _) => ms.and_then(|ms| ms.checked_mul(1_000)),
        ScalarValue::TimestampSecond(s, _) => s.and_then(|s| s.checked_mul(1_000_000)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
