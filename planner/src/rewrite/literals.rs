//! Literals that DataFusion reads otherwise: array texts in casts, and numbers with an exponent.

use super::null;
use datafusion::sql::sqlparser::ast::{self, Array, ArrayElemTypeDef, DataType, Expr, Value};
use thalweg_catalog::array_text::{self, Part};
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType};

/// The most digits of a numeric.
const DIGITS_MAX: i64 = 38;

/// `'{1,2}'::int[]` as an array of casts; none if it is no literal that is cast to an array.
pub(super) fn array(inner: &Expr, data_type: &DataType) -> SqlResult<Option<Expr>> {
    let (Some(text), DataType::Array(ArrayElemTypeDef::SquareBracket(item, _))) = (text_of(inner), data_type) else {
        return Ok(None);
    };
    let array = array_of(text, innermost(item), array_text::DIMENSIONS_MAX)?;
    // The type says nothing of further dimensions.
    let is_nested = matches!(&array, Expr::Array(Array { elem, .. }) if elem.iter().any(|e| matches!(e, Expr::Array(_))));
    Ok(Some(if is_nested { array } else { cast(array, data_type.clone()) }))
}

/// The type of `'1.50'::numeric`: with as many decimal places as are written. None if it is no such literal.
pub(super) fn sized(inner: &Expr, data_type: &DataType) -> Option<DataType> {
    use ast::ExactNumberInfo as Size;
    let (DataType::Numeric(Size::None) | DataType::Decimal(Size::None) | DataType::Dec(Size::None)) = data_type else {
        return None;
    };
    let text = text_of(inner)?.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let are_digits = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let fits = (whole.len() + fraction.len()) as i64 <= DIGITS_MAX;
    (are_digits && fits).then_some(DataType::Numeric(Size::PrecisionAndScale(DIGITS_MAX as u64, fraction.len() as i64)))
}

fn innermost(item: &DataType) -> &DataType {
    match item {
        DataType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => innermost(inner),
        other => other,
    }
}

/// `depth` is how many dimensions there may be.
fn array_of(text: &str, item: &DataType, depth: usize) -> SqlResult<Expr> {
    if depth == 0 {
        array_text::check_dimensions(array_text::DIMENSIONS_MAX + 1)?;
    }
    let parts = array_text::parts(text)?;
    let arrays = parts.iter().filter(|part| matches!(part, Part::Array(_))).count();
    if arrays > 0 && arrays < parts.len() {
        return Err(array_text::uneven(text));
    }
    let elements = parts.into_iter().map(|part| match part {
        Part::Null => Ok(null()),
        Part::Array(inner) => array_of(&inner, item, depth - 1),
        Part::Value(value) => Ok(cast(string(&value), item.clone())),
    });
    let elements = elements.collect::<SqlResult<Vec<_>>>()?;
    if !elements.windows(2).all(|pair| length(&pair[0]) == length(&pair[1])) {
        return Err(array_text::uneven(text));
    }
    Ok(Expr::Array(Array { elem: elements, named: true }))
}

/// The lengths of an array's dimensions; none of what is no array.
fn length(expr: &Expr) -> Vec<usize> {
    match expr {
        Expr::Array(Array { elem, .. }) => std::iter::once(elem.len()).chain(elem.first().into_iter().flat_map(length)).collect(),
        _ => vec![],
    }
}

/// A number with an exponent, written out; beyond what a numeric holds, as a double. None for any other.
///
/// # Errors
/// `22003` for what not even a double holds.
pub(super) fn number(text: &str) -> SqlResult<Option<Expr>> {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return Ok(None) };
    let Ok(exponent) = exponent.parse::<i64>() else { return Ok(None) };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent.clamp(-1000, 1000);
    let (before, after) = (point.max(1), (digits.len() as i64 - point).max(0));
    if text.parse::<f64>().is_ok_and(f64::is_infinite) {
        let message = format!("\"{text}\" is out of range for type double precision");
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
    }
    if before + after > DIGITS_MAX {
        return Ok(Some(cast(string(text), DataType::Double(ast::ExactNumberInfo::None))));
    }
    let digit = |at: i64| usize::try_from(at).ok().and_then(|at| digits.as_bytes().get(at)).map_or('0', |b| char::from(*b));
    let mut plain: String = (point - before..point).map(digit).collect();
    if after > 0 {
        plain.push('.');
        plain.extend((point..point + after).map(digit));
    }
    let size = ast::ExactNumberInfo::PrecisionAndScale((before + after) as u64, after);
    Ok(Some(cast(string(&plain), DataType::Numeric(size))))
}

/// Whole numbers in `VALUES` as integers where something else stands above or below them that tells a column's type: beside a cast to
/// `integer` they would make it a bigint.
pub(super) fn narrow_values(values: &mut ast::Values) {
    let columns = values.rows.iter().map(Vec::len).min().unwrap_or(0);
    for place in 0..columns {
        let is_mixed = values.rows.iter().any(|row| matches!(&row[place], Expr::Cast { .. } | Expr::Nested(_)));
        if !is_mixed {
            continue;
        }
        for cell in values.rows.iter_mut().map(|row| &mut row[place]).filter(|cell| is_integer(cell)) {
            let number = std::mem::replace(cell, null());
            *cell = cast(number, DataType::Integer(None));
        }
    }
}

/// Literals in quotes and NULLs in `VALUES` as the type that is carried by text of a cast above or below them: DataFusion wants one
/// type in all rows.
pub(super) fn type_values(values: &mut ast::Values) {
    let columns = values.rows.iter().map(Vec::len).min().unwrap_or(0);
    for place in 0..columns {
        let Some(of) = values.rows.iter().find_map(|row| carried_type(&row[place])) else { continue };
        for cell in values.rows.iter_mut().map(|row| &mut row[place]) {
            let is_null = matches!(cell, Expr::Value(value) if value.value == Value::Null);
            if is_null || text_of(cell).is_some() {
                let untyped = std::mem::replace(cell, null());
                *cell = cast(untyped, of.clone());
            }
        }
    }
}

/// The type that is carried by text which an expression is of, if that can be seen: without a length, which would cut others.
fn carried_type(expr: &Expr) -> Option<DataType> {
    let bits = || DataType::Custom(ast::Ident::with_quote('"', "bit").into(), vec![]);
    match expr {
        Expr::Nested(inner) => carried_type(inner),
        Expr::Cast { data_type: DataType::Bit(_), .. } => Some(bits()),
        Expr::Cast { data_type: DataType::BitVarying(_) | DataType::VarBit(_), .. } => Some(DataType::VarBit(None)),
        Expr::Cast { data_type, .. } | Expr::TypedString(ast::TypedString { data_type, .. }) => {
            matches!(crate::types::sql_type(data_type), Ok(SqlType::Carried(_))).then(|| data_type.clone())
        }
        Expr::Value(value) => self::bits(&value.value).map(|_| bits()),
        _ => None,
    }
}

/// Whether an expression is a number that an integer holds.
fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if text.parse::<i32>().is_ok()),
        Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => is_integer(expr),
        _ => false,
    }
}

/// `INTERVAL '1 day 02:00:00'` as a cast: DataFusion reads no times of day in intervals. None for what it reads itself.
pub(super) fn clock_interval(interval: &ast::Interval) -> Option<Expr> {
    let text = text_of(&interval.value)?;
    let is_plain = interval.leading_field.is_none() && interval.last_field.is_none();
    let data_type = DataType::Interval { fields: None, precision: None };
    (is_plain && text.contains(':')).then(|| cast(string(text), data_type))
}

/// A search in an array's text, `x = ANY ('{1,2}')` or `x <> ALL ('{1,2}')`, as one in a list.
pub(super) fn rewrite_search(expr: &mut Expr) -> SqlResult<()> {
    match expr {
        Expr::AnyOp { left, right, .. } => {
            if let Some(found) = any_of(left, right)? {
                *expr = found;
            }
        }
        Expr::AllOp { left, right, .. } => {
            if let Some(found) = any_of(left, right)? {
                *expr = Expr::UnaryOp { op: ast::UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(found))) };
            }
        }
        _ => {}
    }
    Ok(())
}

/// `left = ANY ('{1,2}')` as `left IN ('1', '2')`: the elements then have the type of what is looked for. None if there is no
/// array's text on the right.
fn any_of(left: &Expr, right: &Expr) -> SqlResult<Option<Expr>> {
    let Some(text) = text_of(right) else { return Ok(None) };
    let list: Vec<Expr> = array_text::elements(text)?.iter().map(|e| e.as_deref().map_or_else(null, string)).collect();
    Ok(Some(match list.is_empty() {
        true => Expr::Value(Value::Boolean(false).into()),
        false => Expr::InList { expr: Box::new(left.clone()), list, negated: false },
    }))
}

/// The text of a literal of bits, `B'101'` or `X'1F'`.
pub(super) fn bits(value: &Value) -> Option<String> {
    match value {
        Value::SingleQuotedByteStringLiteral(digits) => Some(digits.clone()),
        Value::HexStringLiteral(digits) => Some(format!("x{digits}")),
        _ => None,
    }
}

/// The text of a literal in quotes.
pub(crate) fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) => text_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
            Value::DollarQuotedString(quoted) => Some(&quoted.value),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn string(text: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.to_string()).into())
}

pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: ast::CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
