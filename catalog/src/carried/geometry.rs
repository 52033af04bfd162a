//! Geometric types: points, and what is made of them.

use super::invalid;
use crate::error::{SqlError, SqlResult, SqlState};
use serde::{Deserialize, Serialize};

/// A kind of figure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Shape {
    Point,
    Line,
    Segment,
    Box,
    Path,
    Polygon,
    Circle,
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Point => "point",
            Shape::Line => "line",
            Shape::Segment => "lseg",
            Shape::Box => "box",
            Shape::Path => "path",
            Shape::Polygon => "polygon",
            Shape::Circle => "circle",
        }
    }
}

/// A figure by its numbers: the coordinates of its points one after the other, a circle's radius last, the factors of a line.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// The numbers, as many as the shape has.
    pub numbers: Vec<f64>,
    /// Whether a path ends where it begins; true of all else.
    pub is_closed: bool,
}

impl Figure {
    /// The figure of these numbers, in the one form that it is kept in.
    ///
    /// # Errors
    /// None if it is no figure of the shape.
    pub fn new(shape: Shape, mut numbers: Vec<f64>, is_closed: bool) -> Option<Figure> {
        let is_count = match shape {
            Shape::Point => numbers.len() == 2,
            Shape::Line | Shape::Circle => numbers.len() == 3,
            Shape::Segment | Shape::Box => numbers.len() == 4,
            Shape::Path | Shape::Polygon => numbers.len() >= 2 && numbers.len().is_multiple_of(2),
        };
        match (shape, numbers.as_mut_slice()) {
            // The corner that is farther up and right comes first.
            (Shape::Box, [x1, y1, x2, y2]) => {
                (*x1, *x2) = (x1.max(*x2), x1.min(*x2));
                (*y1, *y2) = (y1.max(*y2), y1.min(*y2));
            }
            (Shape::Circle, [_, _, radius]) if *radius < 0.0 => return None,
            (Shape::Line, [a, b, _]) if *a == 0.0 && *b == 0.0 => return None,
            _ => {}
        }
        is_count.then_some(Figure { numbers, is_closed })
    }
}

/// Reads a figure.
pub fn parse(shape: Shape, text: &str) -> SqlResult<Figure> {
    let bad = || invalid(shape.name(), text);
    let trimmed = text.trim();
    let (inner, is_open) = match (trimmed.strip_prefix('['), shape) {
        (Some(inner), Shape::Segment | Shape::Path | Shape::Line) => (inner.strip_suffix(']').ok_or_else(bad)?, true),
        _ => (trimmed, false),
    };
    let numbers = match (shape, trimmed.strip_prefix('{')) {
        (Shape::Line, Some(inner)) => flat(inner.strip_suffix('}').ok_or_else(bad)?),
        (Shape::Line, None) => points(inner).and_then(through),
        (Shape::Circle, _) => circle(trimmed),
        _ => points(inner),
    };
    let numbers = numbers.ok_or_else(bad)?;
    let is_beyond = |number: &f64| number.is_infinite() && !text.to_ascii_lowercase().contains("inf");
    if numbers.iter().any(is_beyond) {
        let message = format!("\"{text}\" is out of range for type double precision");
        return Err(SqlError::new(SqlState::NumericValueOutOfRange, message));
    }
    Figure::new(shape, numbers, !(is_open && shape == Shape::Path)).ok_or_else(bad)
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// Numbers between commas.
fn flat(text: &str) -> Option<Vec<f64>> {
    text.split(',').map(number).collect()
}

/// The coordinates of points, each in parentheses or not, perhaps with parentheses around all.
fn points(text: &str) -> Option<Vec<f64>> {
    let mut rest = text.trim();
    if let Some(inner) = enclosed(rest)
        && (inner.contains('(') || inner.matches(',').count() > 1)
    {
        rest = inner.trim();
    }
    let mut found = vec![];
    loop {
        let (pair, after) = match rest.strip_prefix('(') {
            Some(inner) => inner.split_once(')')?,
            None => {
                let first = rest.find(',')?;
                let end = rest[first + 1..].find(',').map_or(rest.len(), |at| first + 1 + at);
                rest.split_at(end)
            }
        };
        let pair = flat(pair).filter(|pair| pair.len() == 2)?;
        found.extend(pair);
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(found);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// What is between parentheses that stand around the whole text.
fn enclosed(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (at > 0 && at + 1 == text.len()).then(|| &text[1..at]);
        }
    }
    None
}

fn circle(text: &str) -> Option<Vec<f64>> {
    let inner = match text.strip_prefix('<') {
        Some(inner) => inner.strip_suffix('>')?,
        None => enclosed(text).unwrap_or(text),
    };
    let (center, radius) = inner.rsplit_once(',')?;
    let mut numbers = points(center).filter(|center| center.len() == 2)?;
    numbers.push(number(radius)?);
    Some(numbers)
}

/// The line through two points: the factors of `Ax + By + C = 0`.
fn through(points: Vec<f64>) -> Option<Vec<f64>> {
    let [x1, y1, x2, y2] = points.as_slice() else { return None };
    if x1 == x2 && y1 == y2 {
        return None;
    }
    Some(if x1 == x2 {
        vec![-1.0, 0.0, *x1]
    } else {
        let slope = (y1 - y2) / (x1 - x2);
        let height = y1 - slope * x1;
        vec![slope, -1.0, if height == 0.0 { 0.0 } else { height }]
    })
}

/// The text of a figure.
pub fn text_of(shape: Shape, figure: &Figure) -> String {
    let shown: Vec<String> = figure.numbers.iter().map(|number| float_text(*number)).collect();
    let pairs: Vec<String> = shown.chunks(2).map(|pair| format!("({})", pair.join(","))).collect();
    match shape {
        Shape::Point | Shape::Box => pairs.join(","),
        Shape::Line => format!("{{{}}}", shown.join(",")),
        Shape::Segment => format!("[{}]", pairs.join(",")),
        Shape::Path if !figure.is_closed => format!("[{}]", pairs.join(",")),
        Shape::Path | Shape::Polygon => format!("({})", pairs.join(",")),
        Shape::Circle => format!("<{},{}>", pairs[0], shown[2]),
    }
}

/// The shortest digits that stand for the number, laid out as Postgres does: with an exponent where there are many zeros.
fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if value != 0.0 && !(-4..15).contains(&exponent) => {
            format!("{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.unsigned_abs())
        }
        _ => format!("{value}"),
    }
}
