//! Text to single values, as Postgres's input functions read it. Exact: no integer and no decimal passes through a double.

/// Why a text is no value of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misfit {
    /// It is not written like one.
    Syntax,
    /// It is one, but the type can't hold it.
    Range,
}

/// Without the blanks around it.
pub(crate) fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Reads a 64-bit integer. `12.0` and `12e1` are integers too, since many writers have only one kind of number; `12.5` is none.
#[inline]
pub(crate) fn parse_integer(text: &[u8]) -> Result<i64, Misfit> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // Eighteen digits never overflow.
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return parse_integer_slowly(text);
    }
    let value = digits.iter().fold(0i64, |value, digit| value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')));
    Ok(if negative { -value } else { value })
}

#[cold]
fn parse_integer_slowly(text: &[u8]) -> Result<i64, Misfit> {
    match parse_scaled(text, 0)? {
        (_, Exactness::Rounded) => Err(Misfit::Syntax),
        (value, Exactness::Exact) => i64::try_from(value).map_err(|_| Misfit::Range),
    }
}

/// Whether digits were cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exactness {
    Exact,
    Rounded,
}

/// Reads a decimal number, with or without exponent, as an integer of units of 10^−scale, rounded half away from zero.
pub(crate) fn parse_scaled(text: &[u8], scale: i8) -> Result<(i128, Exactness), Misfit> {
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let (mantissa, exponent) = match unsigned.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(place) => (&unsigned[..place], parse_exponent(&unsigned[place + 1..])?),
        None => (unsigned, 0),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or(&[]));
    if whole.len() + fraction.len() == 0 {
        return Err(Misfit::Syntax);
    }
    // How many of the digits count; those after them are rounded off.
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let (mut value, mut exactness, mut round_up, mut seen) = (0i128, Exactness::Exact, false, 0i64);
    for byte in whole.iter().chain(fraction) {
        if !byte.is_ascii_digit() {
            return Err(Misfit::Syntax);
        }
        let digit = byte - b'0';
        if seen < kept {
            value = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit))).ok_or(Misfit::Range)?;
        } else {
            round_up |= seen == kept && digit >= 5;
            if digit != 0 {
                exactness = Exactness::Rounded;
            }
        }
        seen += 1;
    }
    while seen < kept && value != 0 {
        value = value.checked_mul(10).ok_or(Misfit::Range)?;
        seen += 1;
    }
    value += i128::from(round_up);
    Ok((if negative { -value } else { value }, exactness))
}

fn parse_exponent(text: &[u8]) -> Result<i64, Misfit> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Misfit::Syntax);
    }
    // Beyond a million nothing changes: the number is zero or out of any range.
    let value = digits.iter().fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(1_000_000));
    Ok(if negative { -value } else { value })
}

/// Reads a `numeric(precision, scale)`.
pub(crate) fn parse_numeric(text: &[u8], precision: u8, scale: i8) -> Result<i128, Misfit> {
    let (value, _) = parse_scaled(text, scale)?;
    match 10i128.checked_pow(u32::from(precision)) {
        Some(limit) if value.abs() < limit => Ok(value),
        _ => Err(Misfit::Range),
    }
}

/// Reads a floating-point number; one that overflows to infinity or vanishes to zero is out of range, as in Postgres.
pub(crate) fn parse_float<T>(text: &[u8]) -> Result<T, Misfit>
where
    T: std::str::FromStr + Copy + Into<f64>,
{
    let text = std::str::from_utf8(text).map_err(|_| Misfit::Syntax)?;
    let value: T = text.parse().map_err(|_| Misfit::Syntax)?;
    let wide: f64 = value.into();
    let names_infinity = || text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    let mantissa_is_zero = || !text.split(['e', 'E']).next().unwrap_or("").bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if (wide.is_infinite() && !names_infinity()) || (wide == 0.0 && !mantissa_is_zero()) {
        return Err(Misfit::Range);
    }
    Ok(value)
}

/// Reads a boolean: true, false, yes, no, on, off, 1, 0 and their beginnings.
pub(crate) fn parse_boolean(text: &[u8]) -> Result<bool, Misfit> {
    let lower = text.to_ascii_lowercase();
    let begins = |word: &[u8]| !lower.is_empty() && word.starts_with(&lower);
    match lower.as_slice() {
        b"1" | b"on" => Ok(true),
        b"0" | b"of" | b"off" => Ok(false),
        _ if begins(b"true") || begins(b"yes") => Ok(true),
        _ if begins(b"false") || begins(b"no") => Ok(false),
        _ => Err(Misfit::Syntax),
    }
}

/// Reads a uuid in any of the forms that Postgres takes; gives the usual one, in lower case.
pub(crate) fn parse_uuid(text: &[u8]) -> Result<[u8; 36], Misfit> {
    let text = match text {
        [b'{', inner @ .., b'}'] => inner,
        other => other,
    };
    let (mut out, mut digits, mut at) = ([b'-'; 36], 0, 0);
    let mut after_hyphen = true;
    for byte in text {
        if *byte == b'-' {
            // A hyphen may follow any group of four digits, but not another hyphen.
            if after_hyphen || digits % 4 != 0 || digits == 32 {
                return Err(Misfit::Syntax);
            }
            after_hyphen = true;
            continue;
        }
        if !byte.is_ascii_hexdigit() || digits == 32 {
            return Err(Misfit::Syntax);
        }
        if matches!(digits, 8 | 12 | 16 | 20) {
            at += 1;
        }
        out[at] = byte.to_ascii_lowercase();
        (digits, at, after_hyphen) = (digits + 1, at + 1, false);
    }
    if digits == 32 { Ok(out) } else { Err(Misfit::Syntax) }
}

/// Reads `\x` and hexadecimal digits; any other text stands for its own bytes.
pub(crate) fn parse_bytea(text: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
    let Some(digits) = text.strip_prefix(b"\\x") else {
        out.extend_from_slice(text);
        return Ok(());
    };
    let value = |digit: u8| char::from(digit).to_digit(16).map(|v| v as u8).ok_or(Misfit::Syntax);
    if digits.len() % 2 != 0 {
        return Err(Misfit::Syntax);
    }
    for pair in digits.chunks_exact(2) {
        out.push(value(pair[0])? << 4 | value(pair[1])?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
