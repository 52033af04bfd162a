//! Ranges and multiranges: between two bounds, each within or not, or open on a side.
//!
//! Ranges of values that can be counted are kept with the lower bound within and the upper one not, as Postgres keeps them: `[1,5]` is
//! `[1,6)`. A multirange is kept as ranges that neither touch nor overlap, in order.

use super::bound::{BoundType, BoundValue};
use crate::datetime::SessionTimeZone;
use crate::error::{SqlError, SqlResult, SqlState};
use std::cmp::Ordering;
use std::fmt;

/// A bound: its value, and whether that is within the range.
pub type Bound = (BoundValue, bool);

/// A range; a bound that is none leaves its side open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// What the bounds are.
    pub bounds: BoundType,
    /// Whether nothing is within; there are no bounds then.
    pub is_empty: bool,
    /// Where it begins.
    pub lower: Option<Bound>,
    /// Where it ends.
    pub upper: Option<Bound>,
}

impl Range {
    /// The range between these bounds, in the one form that equal ranges have.
    ///
    /// # Errors
    /// `22000` if it ends before it begins, `22003` where a bound that is within has no successor.
    pub fn new(bounds: BoundType, lower: Option<Bound>, upper: Option<Bound>) -> SqlResult<Range> {
        let order = lower.zip(upper).map(|(lower, upper)| lower.0.compare(upper.0));
        if order == Some(Ordering::Greater) {
            let message = "range lower bound must be less than or equal to range upper bound";
            return Err(SqlError::new(SqlState::DataException, message));
        }
        // The one after a value takes its place, if there is such: from then on it is within below, and without above.
        let moved = |bound: Option<Bound>, within: bool| -> SqlResult<Option<Bound>> {
            match bound {
                Some((value, is_within)) if is_within != within => {
                    Ok(Some(bounds.next(value)?.map_or((value, is_within), |next| (next, within))))
                }
                other => Ok(other),
            }
        };
        let (lower, upper) = (moved(lower, true)?, moved(upper, false)?);
        let is_empty = lower.zip(upper).is_some_and(|((low, low_within), (high, high_within))| match low.compare(high) {
            Ordering::Less => false,
            Ordering::Equal => !(low_within && high_within),
            Ordering::Greater => true,
        });
        if is_empty { Ok(Range::empty(bounds)) } else { Ok(Range { bounds, is_empty, lower, upper }) }
    }

    /// The range with nothing in it.
    pub fn empty(bounds: BoundType) -> Range {
        Range { bounds, is_empty: true, lower: None, upper: None }
    }

    /// Bytes that compare as Postgres compares ranges: the empty one first, then by where they begin, then by where they end.
    pub(super) fn order_key(&self) -> Vec<u8> {
        if self.is_empty {
            return vec![0];
        }
        let mut key = vec![1];
        match self.lower {
            None => key.push(0),
            Some((value, within)) => {
                key.push(1);
                key.extend(value.order_key());
                key.push(u8::from(!within));
            }
        }
        match self.upper {
            None => key.push(1),
            Some((value, within)) => {
                key.push(0);
                key.extend(value.order_key());
                key.push(u8::from(within));
            }
        }
        key
    }

    /// Whether this range, which begins no later, leaves nothing between itself and the other.
    fn reaches(&self, other: &Range) -> bool {
        match (self.upper, other.lower) {
            (Some((end, end_within)), Some((start, start_within))) => match end.compare(start) {
                Ordering::Less => false,
                Ordering::Equal => end_within || start_within,
                Ordering::Greater => true,
            },
            _ => true,
        }
    }

    fn ends_before(&self, other: &Range) -> bool {
        match (self.upper, other.upper) {
            (Some((own, own_within)), Some((end, within))) => own.compare(end).then(own_within.cmp(&within)) == Ordering::Less,
            (own, _) => own.is_some(),
        }
    }

    /// The range in text, with each bound as `show` shows it.
    pub fn shown(&self, show: impl Fn(BoundValue) -> String) -> String {
        if self.is_empty {
            return "empty".to_string();
        }
        let show = |bound: Option<Bound>| bound.map_or(String::new(), |(value, _)| quoted(show(value)));
        let within = |bound: Option<Bound>| bound.is_some_and(|(_, within)| within);
        let open = if within(self.lower) { '[' } else { '(' };
        let close = if within(self.upper) { ']' } else { ')' };
        format!("{open}{},{}{close}", show(self.lower), show(self.upper))
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown(|value| self.bounds.text(value)))
    }
}

fn quoted(text: String) -> String {
    let is_plain = |c: char| !matches!(c, '"' | '\\' | '(' | ')' | '[' | ']' | ',') && !c.is_whitespace();
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\""))
}

/// Reads a range.
///
/// # Errors
/// `22P02` for a text that is none, and those of its bounds.
pub fn parse(bounds: BoundType, text: &str, zone: &SessionTimeZone) -> SqlResult<Range> {
    let bad = |detail: &str| malformed("range", text, detail);
    let trimmed = text.trim();
    if trimmed.eq_ignore_ascii_case("empty") {
        return Ok(Range::empty(bounds));
    }
    let lower_within = match trimmed.chars().next() {
        Some('[') => true,
        Some('(') => false,
        _ => return Err(bad("Missing left parenthesis or bracket.")),
    };
    let (lower, rest) = bound_text(&trimmed[1..]).ok_or_else(|| bad("Unexpected end of input."))?;
    let rest = rest.strip_prefix(',').ok_or_else(|| bad("Missing comma after lower bound."))?;
    let (upper, rest) = bound_text(rest).ok_or_else(|| bad("Unexpected end of input."))?;
    let upper_within = match rest.chars().next() {
        Some(']') => true,
        Some(')') => false,
        _ => return Err(bad("Too many commas.")),
    };
    if rest.len() > 1 {
        return Err(bad("Junk after right parenthesis or bracket."));
    }
    let bound = |text: Option<String>, within: bool| -> SqlResult<Option<Bound>> {
        text.map(|text| bounds.parse(&text, zone).map(|value| (value, within))).transpose()
    };
    Range::new(bounds, bound(lower, lower_within)?, bound(upper, upper_within)?)
}

/// The text of a bound without its quotes, none of one that is open, and what follows it. None if nothing follows.
fn bound_text(text: &str) -> Option<(Option<String>, &str)> {
    let (mut value, mut quotes, mut within) = (String::new(), false, false);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if within && chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                value.push('"');
            }
            '"' => {
                within = !within;
                quotes = true;
            }
            '\\' => value.push(chars.next()?.1),
            ',' | ')' | ']' if !within => {
                return Some(((quotes || at > 0).then_some(value), &text[at..]));
            }
            c => value.push(c),
        }
    }
    None
}

fn malformed(kind: &str, text: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::InvalidTextRepresentation, format!("malformed {kind} literal: \"{text}\"")).with_detail(detail)
}

/// Reads a multirange.
///
/// # Errors
/// As [`parse`].
pub fn parse_many(bounds: BoundType, text: &str, zone: &SessionTimeZone) -> SqlResult<Vec<Range>> {
    let bad = |detail: &str| malformed("multirange", text, detail);
    let inner = text.trim().strip_prefix('{').ok_or_else(|| bad("Missing left brace."))?;
    let mut rest = inner.trim_start();
    let mut ranges = vec![];
    if let Some(after) = rest.strip_prefix('}') {
        return if after.is_empty() { Ok(ranges) } else { Err(bad("Junk after closing right brace.")) };
    }
    loop {
        let end = range_end(rest).ok_or_else(|| bad("Unexpected end of input."))?;
        ranges.push(parse(bounds, &rest[..end], zone)?);
        rest = rest[end..].trim_start();
        match rest.chars().next() {
            Some(',') => rest = rest[1..].trim_start(),
            Some('}') if rest.len() == 1 => return Ok(merged(ranges)),
            Some('}') => return Err(bad("Junk after closing right brace.")),
            Some(_) => return Err(bad("Expected comma or end of multirange.")),
            None => return Err(bad("Unexpected end of input.")),
        }
    }
}

/// Where the range ends that a text begins with.
fn range_end(text: &str) -> Option<usize> {
    if text.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("empty")) {
        return Some(5);
    }
    let mut within = false;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => within = !within,
            '\\' => {
                chars.next();
            }
            ')' | ']' if !within => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// The ranges as a multirange keeps them: those that touch or overlap are one.
pub fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.retain(|range| !range.is_empty);
    ranges.sort_by_key(Range::order_key);
    let mut kept: Vec<Range> = vec![];
    for range in ranges {
        match kept.last_mut() {
            Some(last) if last.reaches(&range) => {
                if last.ends_before(&range) {
                    last.upper = range.upper;
                }
            }
            _ => kept.push(range),
        }
    }
    kept
}

/// The text of a multirange.
pub fn text_of(ranges: &[Range]) -> String {
    format!("{{{}}}", ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

/// Bytes that compare as Postgres compares multiranges: range by range.
pub(super) fn order_key(ranges: &[Range]) -> Vec<u8> {
    // What ends first comes first: 0 stands before the 1 of a further range.
    ranges.iter().flat_map(Range::order_key).chain([0]).collect()
}
