//! `numeric` values: an `i128` and the count of its decimal places, exact in both forms.

use bytes::{BufMut, BytesMut};

/// The greatest precision of a Decimal128.
pub const PRECISION_MAX: u8 = 38;

/// The sign words of the binary form.
const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;

/// The value and scale that are shown: where a type says nothing of its size, without zeros at the end.
pub fn shown(value: i128, scale: i8, shortest: bool) -> (i128, i8) {
    let (mut value, mut scale) = (value, scale);
    while shortest && scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    (value, scale)
}

/// Writes `value` / 10^`scale` in digits, with all its decimal places.
pub fn write_text(value: i128, scale: i8, out: &mut BytesMut) {
    let mut digits = [0u8; 40];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    if value < 0 {
        out.put_u8(b'-');
    }
    let digits = &digits[at..];
    if scale <= 0 {
        out.put_slice(if digits.is_empty() { b"0" } else { digits });
        out.put_bytes(b'0', if digits.is_empty() { 0 } else { usize::from(scale.unsigned_abs()) });
        return;
    }
    let scale = scale as usize;
    if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.put_slice(whole);
        out.put_u8(b'.');
        out.put_slice(fraction);
    } else {
        out.put_slice(b"0.");
        out.put_bytes(b'0', scale - digits.len());
        out.put_slice(digits);
    }
}

/// Writes the binary form: counts, sign, and the digits to base 10000 around the decimal point.
pub fn write_binary(value: i128, scale: i8, out: &mut BytesMut) {
    let places = scale.max(0) as u32;
    let magnitude = value.unsigned_abs();
    let one = 10u128.pow(places.min(38));
    // Filled from the decimal point outwards; 10 groups of four hold the 38 digits of either side.
    let mut whole = [0u16; 11];
    let mut whole_len = 0;
    let mut rest = magnitude / one;
    while rest > 0 {
        whole[whole_len] = (rest % 10_000) as u16;
        rest /= 10_000;
        whole_len += 1;
    }
    let mut fraction = [0u16; 11];
    let mut fraction_len = 0;
    let mut rest = magnitude % one;
    let mut left = places;
    while left > 0 && rest > 0 {
        let take = left.min(4);
        let below = 10u128.pow(left - take);
        fraction[fraction_len] = (rest / below) as u16 * 10u16.pow(4 - take);
        rest %= below;
        left -= take;
        fraction_len += 1;
    }
    let digits: Vec<u16> = whole[..whole_len].iter().rev().chain(&fraction[..fraction_len]).copied().collect();
    let leading = digits.iter().take_while(|d| **d == 0).count();
    let trailing = digits.iter().rev().take_while(|d| **d == 0).count().min(digits.len() - leading);
    let significant = &digits[leading..digits.len() - trailing];
    // The exponent, to base 10000, of the first digit sent.
    let weight = if significant.is_empty() { 0 } else { whole_len as i16 - 1 - leading as i16 };
    out.put_u16(significant.len() as u16);
    out.put_i16(weight);
    out.put_u16(if value < 0 { NEGATIVE } else { POSITIVE });
    out.put_u16(places as u16);
    for digit in significant {
        out.put_u16(*digit);
    }
}

/// A number read exactly: `value` / 10^`scale`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    /// All digits.
    pub value: i128,
    /// How many of them are decimal places.
    pub scale: u32,
}

/// Why a number could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecimalError {
    /// It is no number.
    Syntax,
    /// It is NaN or infinite, or has too many digits.
    Range,
}

/// Reads a number in digits, with an exponent or without. Decimal places beyond 38 digits in all are rounded off.
pub fn parse_text(text: &str) -> Result<Decimal, DecimalError> {
    let text = text.trim();
    if ["nan", "infinity", "+infinity", "-infinity", "inf", "-inf"].contains(&text.to_ascii_lowercase().as_str()) {
        return Err(DecimalError::Range);
    }
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], unsigned[at + 1..].parse::<i32>().map_err(|_| DecimalError::Syntax)?),
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if (whole.is_empty() && fraction.is_empty()) || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(DecimalError::Syntax);
    }
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0').collect();
    from_digits(negative, &digits, whole.len() as i64 + i64::from(exponent))
}

/// The number 0.d₁d₂d₃… × 10^`point`.
fn from_digits(negative: bool, digits: &[u8], point: i64) -> Result<Decimal, DecimalError> {
    let leading = digits.iter().take_while(|d| **d == 0).count();
    let (digits, point) = (&digits[leading..], point - leading as i64);
    if digits.is_empty() {
        // A zero keeps its decimal places.
        let scale = (leading as i64 - (point + leading as i64)).clamp(0, i64::from(PRECISION_MAX));
        return Ok(Decimal { value: 0, scale: scale as u32 });
    }
    if point > i64::from(PRECISION_MAX) {
        return Err(DecimalError::Range);
    }
    let places = (digits.len() as i64 - point).clamp(0, i64::from(PRECISION_MAX) - point.max(0));
    let mut value: i128 = 0;
    // Digits that count; zeros are appended where the exponent reaches beyond them.
    let wanted = point + places;
    for at in 0..wanted.max(0) {
        value = value * 10 + i128::from(digits.get(at as usize).copied().unwrap_or(0));
    }
    if wanted >= 0 && digits.get(wanted as usize).is_some_and(|d| *d >= 5) {
        value += 1;
    }
    Ok(Decimal { value: if negative { -value } else { value }, scale: places as u32 })
}

/// Reads the binary form; none if it is malformed.
pub fn parse_binary(bytes: &[u8]) -> Option<Result<Decimal, DecimalError>> {
    let word = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let (count, weight, sign, scale) = (word(0)? as usize, word(2)? as i16, word(4)?, word(6)?);
    if bytes.len() != 8 + 2 * count {
        return None;
    }
    if sign != POSITIVE && sign != NEGATIVE {
        return matches!(sign, 0xC000 | 0xD000 | 0xF000).then_some(Err(DecimalError::Range));
    }
    let mut digits = Vec::with_capacity(count * 4);
    for i in 0..count {
        let group = word(8 + 2 * i).filter(|group| *group < 10_000)?;
        digits.extend([group / 1000, group / 100 % 10, group / 10 % 10, group % 10].map(|d| d as u8));
    }
    let point = (i64::from(weight) + 1) * 4;
    Some(from_digits(sign == NEGATIVE, &digits, point).map(|found| with_scale(found, u32::from(scale))))
}

/// The number with the decimal places that the sender names, as far as no digit is lost and 38 digits hold it.
fn with_scale(number: Decimal, scale: u32) -> Decimal {
    match rescale(number, scale.min(u32::from(PRECISION_MAX))) {
        Some(value) if fits(value, PRECISION_MAX) => Decimal { value, scale: scale.min(u32::from(PRECISION_MAX)) },
        _ => number,
    }
}

/// The digits of a number at another count of decimal places, rounded half away from zero; none if it overflows.
pub fn rescale(number: Decimal, scale: u32) -> Option<i128> {
    if scale >= number.scale {
        return number.value.checked_mul(10i128.checked_pow(scale - number.scale)?);
    }
    let cut = number.scale - scale;
    if cut > u32::from(PRECISION_MAX) {
        return Some(0);
    }
    let divisor = 10i128.pow(cut);
    let (whole, rest) = (number.value / divisor, number.value % divisor);
    Some(if rest.abs() >= divisor - rest.abs() { whole + number.value.signum() } else { whole })
}

/// Whether a value has at most so many digits.
pub fn fits(value: i128, precision: u8) -> bool {
    value.unsigned_abs() < 10u128.pow(u32::from(precision.min(PRECISION_MAX)))
}
