//! `to_number(text, pattern)`: a number with signs, separators and words around it, such as `12,454.8-` by `99G999D9S`.

use super::super::{error, is_text, wrong_types};
use arrow::array::{ArrayRef, AsArray, Decimal128Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// The most digits that a number has.
const DIGITS_MAX: usize = 38;

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::from(ToNumber { signature: Signature::user_defined(Volatility::Immutable) })]
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ToNumber {
    signature: Signature,
}

impl ScalarUDFImpl for ToNumber {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        "to_number"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [text, pattern] if is_text(text) && is_text(pattern) => Ok(vec![DataType::Utf8; 2]),
            _ => wrong_types(self.name(), types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        wrong_types(self.name(), types)
    }

    /// A pattern that is written out says how many digits there may be.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let pattern = args.scalar_arguments.get(1).copied().flatten().and_then(|value| value.try_as_str().flatten());
        let (precision, scale) = match pattern {
            Some(pattern) => NumberPattern::new(pattern).map_err(error)?.size(),
            None => NUMERIC_DEFAULT,
        };
        Ok(Arc::new(Field::new(self.name(), DataType::Decimal128(precision, scale), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Decimal128(precision, scale) = *args.return_field.data_type() else {
            return wrong_types(self.name(), &[args.return_field.data_type().clone()]);
        };
        let is_scalar = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let texts = args.args[0].to_array(rows)?;
        let patterns = args.args[1].to_array(rows)?;
        let mut known: Option<(&str, NumberPattern)> = None;
        let mut numbers = Vec::with_capacity(rows);
        for (text, name) in texts.as_string::<i32>().iter().zip(patterns.as_string::<i32>()) {
            let (Some(text), Some(name)) = (text, name) else {
                numbers.push(None);
                continue;
            };
            let (_, pattern) = match known.take_if(|(known, _)| *known == name) {
                Some(same) => known.insert(same),
                None => known.insert((name, NumberPattern::new(name).map_err(error)?)),
            };
            let number = pattern.read(text).and_then(|read| sized(&read, precision, scale.unsigned_abs().into()));
            numbers.push(Some(number.map_err(error)?));
        }
        let result: ArrayRef = Arc::new(Decimal128Array::from(numbers).with_precision_and_scale(precision, scale)?);
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

/// What stands for something in a pattern; anything else is passed over in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// `9` and `0`.
    Digit,
    /// `.` and `D`.
    Point,
    /// `,`, which only stands for itself.
    Comma,
    /// `G`.
    Group,
    /// `S`.
    Sign,
    /// `MI`, `PL` and `SG`.
    FixedSign,
    /// `PR`: less than zero in angle brackets.
    Brackets,
    /// `TH`.
    Ordinal,
    /// `V`: the digits behind it are moved behind the point.
    Shift,
    /// Whatever else, so many characters.
    Other,
}

const PARTS: [(&str, Part); 12] = [
    ("9", Part::Digit),
    ("0", Part::Digit),
    (".", Part::Point),
    ("D", Part::Point),
    (",", Part::Comma),
    ("G", Part::Group),
    ("SG", Part::FixedSign),
    ("S", Part::Sign),
    ("MI", Part::FixedSign),
    ("PL", Part::FixedSign),
    ("PR", Part::Brackets),
    ("TH", Part::Ordinal),
];

/// A pattern, read once for many texts.
struct NumberPattern {
    parts: Vec<Part>,
    /// Digits before the point, behind it, and behind a `V`.
    whole: usize,
    places: usize,
    shifted: usize,
}

impl NumberPattern {
    fn new(pattern: &str) -> SqlResult<NumberPattern> {
        let mut parts = vec![];
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            let starts = |name: &str| rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name));
            if starts("FM") {
                rest = &rest[2..];
            } else if starts("EEEE") || starts("RN") {
                let name = if starts("RN") { "RN" } else { "EEEE" };
                return Err(SqlError::unsupported(format!("\"{name}\" not supported for input")));
            } else if first == '"' {
                let (text, after) = rest[1..].split_once('"').unwrap_or((&rest[1..], ""));
                parts.extend(text.chars().map(|_| Part::Other));
                rest = after;
            } else if starts("V") {
                parts.push(Part::Shift);
                rest = &rest[1..];
            } else if let Some((name, part)) = PARTS.iter().find(|(name, _)| starts(name)) {
                parts.push(*part);
                rest = &rest[name.len()..];
            } else {
                parts.push(Part::Other);
                rest = &rest[first.len_utf8()..];
            }
        }
        NumberPattern::of_parts(parts)
    }

    fn of_parts(parts: Vec<Part>) -> SqlResult<NumberPattern> {
        let syntax = |what: &str| Err(SqlError::syntax(what));
        if parts.iter().filter(|part| **part == Part::Point).count() > 1 {
            return syntax("multiple decimal points");
        }
        if parts.iter().filter(|part| **part == Part::Sign).count() > 1 {
            return syntax("cannot use \"S\" twice");
        }
        let point = parts.iter().position(|part| *part == Part::Point);
        let shift = parts.iter().position(|part| *part == Part::Shift);
        if point.is_some() && shift.is_some() {
            return syntax("cannot use \"V\" and decimal point together");
        }
        let digits = |parts: &[Part]| parts.iter().filter(|part| **part == Part::Digit).count();
        let end = point.or(shift).unwrap_or(parts.len());
        let behind = digits(&parts[end..]);
        let (places, shifted) = if point.is_some() { (behind, 0) } else { (0, behind) };
        let whole = digits(&parts[..end]);
        if whole + places + shifted > DIGITS_MAX {
            return Err(SqlError::unsupported(format!("a number of more than {DIGITS_MAX} digits is not supported")));
        }
        Ok(NumberPattern { parts, whole, places, shifted })
    }

    /// Precision and scale of what is read: those of a number without a size, unless they are too small.
    fn size(&self) -> (u8, i8) {
        let (precision, scale) = NUMERIC_DEFAULT;
        let places = (self.places + self.shifted) as i8;
        let whole_max = usize::from(precision) - usize::from(scale.unsigned_abs());
        if places <= scale && self.whole <= whole_max { (precision, scale) } else { (precision, places) }
    }

    /// The number in a text.
    ///
    /// # Errors
    /// `22P02` for a text without a digit in it, `22003` for one with more than the pattern has.
    fn read(&self, text: &str) -> SqlResult<Read> {
        let chars: Vec<char> = text.chars().collect();
        let mut reader = Reader { chars: &chars, at: 0, is_behind_point: false, read: Read::default() };
        for part in &self.parts {
            if reader.next().is_none() {
                break;
            }
            match part {
                Part::Digit | Part::Point => reader.digit(self, *part),
                Part::Comma | Part::Group => reader.at += usize::from(reader.next() == Some(',')),
                Part::Sign => reader.sign(),
                Part::FixedSign => reader.sign_or_other(),
                Part::Brackets => reader.at += usize::from(reader.next() == Some('>')),
                Part::Ordinal => reader.at += 2,
                Part::Shift => {}
                Part::Other => reader.other(),
            }
        }
        if reader.read.whole.is_empty() && reader.read.fraction.is_empty() {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            return Err(SqlError::new(SqlState::InvalidTextRepresentation, message));
        }
        let mut read = reader.read;
        if read.whole.trim_start_matches('0').len() > self.whole + self.shifted {
            return Err(overflow());
        }
        if self.shifted > 0 {
            let cut = read.whole.len().saturating_sub(self.shifted);
            read.fraction = format!("{:0>width$}", read.whole.split_off(cut), width = self.shifted);
        }
        Ok(read)
    }
}

/// The digits of a number and its sign, if there is one.
#[derive(Default, Debug)]
struct Read {
    is_negative: Option<bool>,
    whole: String,
    fraction: String,
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    is_behind_point: bool,
    read: Read,
}

impl Reader<'_> {
    fn next(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    /// A digit, or the point before its time: a number may have fewer digits than its pattern.
    fn digit(&mut self, pattern: &NumberPattern, part: Part) {
        if self.next() == Some(' ') {
            self.at += 1;
        }
        if part == Part::Digit && self.read.whole.is_empty() && self.read.fraction.is_empty() {
            self.sign();
            if pattern.parts.contains(&Part::Brackets) && self.next() == Some('<') {
                self.read.is_negative = Some(true);
                self.at += 1;
            }
        }
        match self.next() {
            Some(c) if c.is_ascii_digit() && !self.is_behind_point => self.read.whole.push(c),
            Some(c) if c.is_ascii_digit() && self.read.fraction.len() < pattern.places => self.read.fraction.push(c),
            Some('.') if pattern.places > 0 && !self.is_behind_point => self.is_behind_point = true,
            // What has its own part of the pattern waits for it.
            Some('0'..='9' | '+' | '-' | '.' | ',' | '>') | None => return,
            Some(_) => {}
        }
        self.at += 1;
    }

    fn sign(&mut self) {
        if let Some(sign @ ('+' | '-')) = self.next()
            && self.read.is_negative.is_none()
        {
            self.read.is_negative = Some(sign == '-');
            self.at += 1;
        }
    }

    fn sign_or_other(&mut self) {
        let before = self.at;
        self.sign();
        if self.at == before {
            self.other();
        }
    }

    /// Passes over a character that can't be of a number.
    fn other(&mut self) {
        if self.next().is_some_and(|c| !"0123456789.,+-".contains(c)) {
            self.at += 1;
        }
    }
}

/// The digits of a number with so many decimal places.
fn sized(read: &Read, precision: u8, places: usize) -> SqlResult<i128> {
    let fraction: String = read.fraction.chars().chain(std::iter::repeat('0')).take(places).collect();
    let digits = format!("{}{fraction}", read.whole);
    let value: Option<i128> = if digits.is_empty() { Some(0) } else { digits.parse().ok() };
    let value = value.filter(|value| value.unsigned_abs() < 10u128.pow(precision.into())).ok_or_else(overflow)?;
    Ok(if read.is_negative == Some(true) { -value } else { value })
}

fn overflow() -> SqlError {
    SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow")
}
