//! Words and where they stand in a document: `tsvector`.

use crate::error::{SqlError, SqlResult, SqlState};

/// The greatest place that is told apart, and how many places a word keeps.
const PLACE_MAX: u16 = 16_383;
const PLACES_MAX: usize = 255;

/// The longest word in bytes.
const WORD_BYTES_MAX: usize = 2046;

/// A word.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// Its text.
    pub text: String,
    /// Where it stands, in order: the place, and how much weight it has there, from 0 (`D`) to 3 (`A`).
    pub places: Vec<(u16, u8)>,
}

/// Reads words, in quotes or not, each with its places or without.
///
/// # Errors
/// `42601` for a text that is none, `54000` for a word that is too long.
pub fn parse(text: &str) -> SqlResult<Vec<Word>> {
    let bad = || SqlError::new(SqlState::SyntaxError, format!("syntax error in tsvector: \"{text}\""));
    let mut words = vec![];
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, after) = word_text(rest).filter(|(word, _)| !word.is_empty()).ok_or_else(bad)?;
        let (places, after) = match after.strip_prefix(':') {
            Some(after) => places(after).ok_or_else(bad)?,
            None => (vec![], after),
        };
        if !after.is_empty() && !after.starts_with(char::is_whitespace) {
            return Err(bad());
        }
        if word.len() > WORD_BYTES_MAX {
            let message = format!("word is too long ({} bytes, max {WORD_BYTES_MAX} bytes)", word.len());
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message));
        }
        words.push(Word { text: word, places });
        rest = after.trim_start();
    }
    Ok(sorted(words))
}

/// A word without its quotes, and what follows it.
fn word_text(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let quoted = text.strip_prefix('\'');
    let text = quoted.unwrap_or(text);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => word.push(chars.next()?.1),
            '\'' if quoted.is_some() => {
                if !text[at + 1..].starts_with('\'') {
                    return Some((word, &text[at + 1..]));
                }
                chars.next();
                word.push('\'');
            }
            c if quoted.is_none() && (c.is_whitespace() || c == ':' && at > 0) => return Some((word, &text[at..])),
            c => word.push(c),
        }
    }
    quoted.is_none().then_some((word, ""))
}

/// The places behind a word's colon, and what follows them.
fn places(text: &str) -> Option<(Vec<(u16, u8)>, &str)> {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (list, rest) = text.split_at(end);
    let place = |text: &str| {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let weight = match &text[digits.len()..] {
            "" | "d" | "D" => 0,
            "c" | "C" => 1,
            "b" | "B" => 2,
            "a" | "A" | "*" => 3,
            _ => return None,
        };
        let place: u64 = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
        (place > 0).then_some((u16::try_from(place).unwrap_or(PLACE_MAX).min(PLACE_MAX), weight))
    };
    Some((list.split(',').map(place).collect::<Option<_>>()?, rest))
}

/// The words in the order that they are kept in, each once.
pub fn sorted(mut words: Vec<Word>) -> Vec<Word> {
    words.sort_by(|a, b| a.text.cmp(&b.text));
    let mut kept: Vec<Word> = vec![];
    for word in words {
        match kept.last_mut() {
            Some(last) if last.text == word.text => last.places.extend(word.places),
            _ => kept.push(word),
        }
    }
    for word in &mut kept {
        // Of one place the greatest weight counts.
        word.places.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        word.places.dedup_by_key(|place| place.0);
        word.places.truncate(PLACES_MAX);
    }
    kept
}

/// The text of words.
pub fn text_of(words: &[Word]) -> String {
    let shown = words.iter().map(|word| {
        let places: Vec<String> = word.places.iter().map(|(place, weight)| format!("{place}{}", letter(*weight))).collect();
        let text = word.text.replace('\\', "\\\\").replace('\'', "''");
        format!("'{text}'{}{}", if places.is_empty() { "" } else { ":" }, places.join(","))
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn letter(weight: u8) -> &'static str {
    match weight {
        3 => "A",
        2 => "B",
        1 => "C",
        _ => "",
    }
}
