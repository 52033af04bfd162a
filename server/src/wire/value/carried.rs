//! Values of types that are carried by text: their binary form, made of the text and read into it.

use super::numeric;
use super::read::{bad_binary, decimal_binary, fixed, utf8};
use super::text;
use bytes::{BufMut, BytesMut};
use thalweg_catalog::carried::bound::{BoundType, BoundValue};
use thalweg_catalog::carried::geometry::{self, Figure, Shape};
use thalweg_catalog::carried::network::{self, Network};
use thalweg_catalog::carried::range::{self, Bound, Range};
use thalweg_catalog::carried::scalar::{Lsn, Money, TimeTz};
use thalweg_catalog::carried::words::{self, Word};
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::datetime::calendar::{POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_US, is_date, is_timestamp};
use thalweg_catalog::{CarriedType, SqlError, SqlResult, SqlState};

/// What an address begins with: its protocol.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 3;

/// The flags of a range.
const EMPTY: u8 = 0x01;
const LOWER_WITHIN: u8 = 0x02;
const UPPER_WITHIN: u8 = 0x04;
const LOWER_OPEN: u8 = 0x08;
const UPPER_OPEN: u8 = 0x10;

const UTC: &SessionTimeZone = &SessionTimeZone::UTC;

/// Writes a value as text: moments are shown in the session's time zone.
///
/// # Errors
/// A text that is no value of the type.
pub(super) fn write_text(of: &CarriedType, value: &str, zone: &SessionTimeZone, out: &mut BytesMut) -> SqlResult<()> {
    let local = |moment: BoundValue| {
        let mut shown = BytesMut::new();
        if let BoundValue::Whole(us) = moment {
            text::write_timestamp(us, Some(zone), &mut shown);
        }
        String::from_utf8_lossy(&shown).into_owned()
    };
    match *of {
        CarriedType::Range(bounds @ BoundType::TimestampTz) => {
            out.put_slice(range::parse(bounds, value, UTC)?.shown(local).as_bytes());
        }
        CarriedType::Multirange(bounds @ BoundType::TimestampTz) => {
            let ranges = range::parse_many(bounds, value, UTC)?;
            let shown: Vec<String> = ranges.iter().map(|range| range.shown(local)).collect();
            out.put_slice(format!("{{{}}}", shown.join(",")).as_bytes());
        }
        _ => out.put_slice(value.as_bytes()),
    }
    Ok(())
}

/// Writes a value's binary form.
///
/// # Errors
/// A text that is no value of the type.
pub(super) fn write_binary(of: &CarriedType, value: &str, out: &mut BytesMut) -> SqlResult<()> {
    match *of {
        CarriedType::Inet | CarriedType::Cidr => {
            let address = Network::parse(value, false)?;
            let bytes = address.bytes();
            out.put_u8(if bytes.len() == 4 { FAMILY_V4 } else { FAMILY_V6 });
            out.put_u8(address.length);
            out.put_u8(u8::from(*of == CarriedType::Cidr));
            out.put_u8(bytes.len() as u8);
            out.put_slice(bytes);
        }
        CarriedType::MacAddr => out.put_slice(&network::mac(value)?),
        CarriedType::MacAddr8 => out.put_slice(&network::mac8(value)?),
        CarriedType::TimeTz => {
            let time = TimeTz::parse(value, UTC)?;
            out.put_i64(time.us);
            // Postgres counts westwards.
            out.put_i32(-time.offset_s);
        }
        CarriedType::Bit(_) | CarriedType::VarBit(_) => write_bits(value, out),
        CarriedType::Money => out.put_i64(Money::parse(value)?.cents),
        CarriedType::PgLsn => out.put_u64(Lsn::parse(value)?.0),
        CarriedType::Xml | CarriedType::Enum(_) => out.put_slice(value.as_bytes()),
        CarriedType::TsVector => write_words(&words::parse(value)?, out),
        CarriedType::Shape(shape) => write_figure(shape, &geometry::parse(shape, value)?, out),
        CarriedType::Range(bounds) => write_range(&range::parse(bounds, value, UTC)?, out)?,
        CarriedType::Multirange(bounds) => {
            let ranges = range::parse_many(bounds, value, UTC)?;
            out.put_i32(ranges.len() as i32);
            for range in &ranges {
                write_with_length(out, |out| write_range(range, out))?;
            }
        }
    }
    Ok(())
}

/// The text of a value, from its binary form.
///
/// # Errors
/// `22P03` for bytes that are none; those of a text that is none.
pub(super) fn read_binary(of: &CarriedType, bytes: &[u8]) -> SqlResult<String> {
    let mut rest = Bytes(bytes);
    let text = match *of {
        CarriedType::Inet | CarriedType::Cidr => read_address(of, &mut rest)?,
        CarriedType::MacAddr => network::mac_text(&rest.array::<6>()?),
        CarriedType::MacAddr8 => network::mac_text(&rest.array::<8>()?),
        CarriedType::TimeTz => {
            let (us, west_s) = (rest.i64()?, rest.i32()?);
            let is_time = (0..=86_400_000_000).contains(&us) && west_s.unsigned_abs() < 16 * 3600;
            if !is_time {
                return Err(SqlError::new(SqlState::DatetimeFieldOverflow, "time out of range"));
            }
            TimeTz { us, offset_s: -west_s }.to_string()
        }
        CarriedType::Bit(_) | CarriedType::VarBit(_) => read_bits(&mut rest)?,
        CarriedType::Money => Money { cents: rest.i64()? }.to_string(),
        CarriedType::PgLsn => Lsn(rest.i64()? as u64).to_string(),
        CarriedType::Xml | CarriedType::Enum(_) => utf8(rest.all())?.to_string(),
        CarriedType::TsVector => words::text_of(&read_words(&mut rest)?),
        CarriedType::Shape(shape) => geometry::text_of(shape, &read_figure(shape, &mut rest)?),
        CarriedType::Range(bounds) => read_range(bounds, rest.all())?.to_string(),
        CarriedType::Multirange(bounds) => {
            let mut ranges = vec![];
            for _ in 0..rest.i32()? {
                let length = rest.length()?;
                ranges.push(read_range(bounds, rest.take(length)?)?);
            }
            range::text_of(&range::merged(ranges))
        }
    };
    if !rest.0.is_empty() {
        return Err(bad_binary());
    }
    // The type may have a length, and equal values one text.
    of.canonical(&text, UTC)
}

fn write_with_length(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut) -> SqlResult<()>) -> SqlResult<()> {
    let start = out.len();
    out.put_i32(0);
    write(out)?;
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn write_bits(bits: &str, out: &mut BytesMut) {
    out.put_i32(bits.len() as i32);
    for byte in bits.as_bytes().chunks(8) {
        out.put_u8(byte.iter().enumerate().fold(0, |all, (at, bit)| all | (bit - b'0') << (7 - at)));
    }
}

fn read_bits(rest: &mut Bytes<'_>) -> SqlResult<String> {
    let count = rest.length()?;
    let bytes = rest.take(count.div_ceil(8))?;
    Ok((0..count).map(|at| if bytes[at / 8] >> (7 - at % 8) & 1 == 1 { '1' } else { '0' }).collect())
}

fn read_address(of: &CarriedType, rest: &mut Bytes<'_>) -> SqlResult<String> {
    let [family, length, _, count] = rest.array::<4>()?;
    let is_known = matches!((family, count), (FAMILY_V4, 4) | (FAMILY_V6, 16));
    let address = Network::of_bytes(rest.take(usize::from(count))?, length).filter(|_| is_known);
    let address = address.ok_or_else(|| {
        SqlError::new(SqlState::InvalidBinaryRepresentation, format!("invalid address in external \"{}\" value", of.name()))
    })?;
    Ok(address.shown_with_length())
}

fn write_words(words: &[Word], out: &mut BytesMut) {
    out.put_i32(words.len() as i32);
    for word in words {
        out.put_slice(word.text.as_bytes());
        out.put_u8(0);
        out.put_u16(word.places.len() as u16);
        for (place, weight) in &word.places {
            out.put_u16(u16::from(*weight) << 14 | place);
        }
    }
}

fn read_words(rest: &mut Bytes<'_>) -> SqlResult<Vec<Word>> {
    let mut words = vec![];
    for _ in 0..rest.i32()? {
        let end = rest.0.iter().position(|byte| *byte == 0).ok_or_else(bad_binary)?;
        let text = utf8(rest.take(end)?)?.to_string();
        rest.take(1)?;
        let count = u16::from_be_bytes(rest.array()?);
        let mut places = vec![];
        for _ in 0..count {
            let place = u16::from_be_bytes(rest.array()?);
            places.push((place & 0x3fff, (place >> 14) as u8));
        }
        words.push(Word { text, places });
    }
    Ok(words::sorted(words))
}

fn write_figure(shape: Shape, figure: &Figure, out: &mut BytesMut) {
    if shape == Shape::Path {
        out.put_u8(u8::from(figure.is_closed));
    }
    if matches!(shape, Shape::Path | Shape::Polygon) {
        out.put_i32((figure.numbers.len() / 2) as i32);
    }
    figure.numbers.iter().for_each(|number| out.put_f64(*number));
}

fn read_figure(shape: Shape, rest: &mut Bytes<'_>) -> SqlResult<Figure> {
    let is_closed = shape != Shape::Path || rest.array::<1>()?[0] != 0;
    let count = match shape {
        Shape::Point => 2,
        Shape::Line | Shape::Circle => 3,
        Shape::Segment | Shape::Box => 4,
        Shape::Path | Shape::Polygon => rest.length()?.checked_mul(2).ok_or_else(bad_binary)?,
    };
    let numbers = (0..count).map(|_| Ok(f64::from_be_bytes(rest.array()?))).collect::<SqlResult<_>>()?;
    Figure::new(shape, numbers, is_closed).ok_or_else(bad_binary)
}

fn write_range(range: &Range, out: &mut BytesMut) -> SqlResult<()> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let within = |bound: Option<Bound>| bound.is_some_and(|(_, within)| within);
    if range.is_empty {
        out.put_u8(EMPTY);
        return Ok(());
    }
    out.put_u8(
        flag(within(range.lower), LOWER_WITHIN)
            | flag(within(range.upper), UPPER_WITHIN)
            | flag(range.lower.is_none(), LOWER_OPEN)
            | flag(range.upper.is_none(), UPPER_OPEN),
    );
    for (value, _) in [range.lower, range.upper].into_iter().flatten() {
        write_with_length(out, |out| write_bound(range.bounds, value, out))?;
    }
    Ok(())
}

fn write_bound(bounds: BoundType, value: BoundValue, out: &mut BytesMut) -> SqlResult<()> {
    let beyond = |_| SqlError::internal("a bound of a range is out of range");
    match (bounds, value) {
        (_, BoundValue::Number(value, places)) => numeric::write_binary(value, i8::try_from(places).map_err(beyond)?, out),
        (BoundType::Int4, BoundValue::Whole(value)) => out.put_i32(i32::try_from(value).map_err(beyond)?),
        (BoundType::Date, BoundValue::Whole(days)) => {
            out.put_i32(i32::try_from(days - i64::from(POSTGRES_EPOCH_DAYS)).map_err(beyond)?);
        }
        (BoundType::Timestamp | BoundType::TimestampTz, BoundValue::Whole(us)) => out.put_i64(us - POSTGRES_EPOCH_US),
        (BoundType::Int8 | BoundType::Numeric, BoundValue::Whole(value)) => out.put_i64(value),
    }
    Ok(())
}

fn read_range(bounds: BoundType, bytes: &[u8]) -> SqlResult<Range> {
    let mut rest = Bytes(bytes);
    let [flags] = rest.array::<1>()?;
    let range = if flags & EMPTY != 0 {
        Range::empty(bounds)
    } else {
        let mut bound = |open: u8, within: u8| -> SqlResult<Option<Bound>> {
            if flags & open != 0 {
                return Ok(None);
            }
            let length = rest.length()?;
            Ok(Some((read_bound(bounds, rest.take(length)?)?, flags & within != 0)))
        };
        let (lower, upper) = (bound(LOWER_OPEN, LOWER_WITHIN)?, bound(UPPER_OPEN, UPPER_WITHIN)?);
        Range::new(bounds, lower, upper)?
    };
    if rest.0.is_empty() { Ok(range) } else { Err(bad_binary()) }
}

fn read_bound(bounds: BoundType, bytes: &[u8]) -> SqlResult<BoundValue> {
    let beyond = || SqlError::new(SqlState::DatetimeFieldOverflow, format!("{} out of range", bounds.sql_type()));
    Ok(match bounds {
        BoundType::Int4 => BoundValue::Whole(i64::from(i32::from_be_bytes(fixed(bytes)?))),
        BoundType::Int8 => BoundValue::Whole(i64::from_be_bytes(fixed(bytes)?)),
        BoundType::Numeric => {
            let number = decimal_binary(bytes)?;
            BoundValue::number(number.value, number.scale)
        }
        BoundType::Date => {
            let days = i64::from(i32::from_be_bytes(fixed(bytes)?)) + i64::from(POSTGRES_EPOCH_DAYS);
            BoundValue::Whole(Some(days).filter(|days| is_date(*days)).ok_or_else(beyond)?)
        }
        BoundType::Timestamp | BoundType::TimestampTz => {
            let us = i64::from_be_bytes(fixed(bytes)?).checked_add(POSTGRES_EPOCH_US).filter(|us| is_timestamp(*us));
            BoundValue::Whole(us.ok_or_else(beyond)?)
        }
    })
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> SqlResult<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(bad_binary)?;
        self.0 = rest;
        Ok(taken)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn array<const N: usize>(&mut self) -> SqlResult<[u8; N]> {
        fixed(self.take(N)?)
    }

    fn i32(&mut self) -> SqlResult<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    fn i64(&mut self) -> SqlResult<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    fn length(&mut self) -> SqlResult<usize> {
        usize::try_from(self.i32()?).map_err(|_| bad_binary())
    }
}
