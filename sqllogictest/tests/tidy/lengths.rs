//! At most 500 lines in a file that is no test, and 70 in a function of it.

use crate::files::Source;
use std::collections::BTreeMap;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// What is too long, and what of the list of exceptions is out of date.
pub fn faults(sources: &[Source]) -> Vec<String> {
    let mut allowed: BTreeMap<&str, usize> = include_str!("allowed.txt")
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (what, length) = line.rsplit_once(' ').expect("a name and a length");
            (what, length.parse().expect("a length"))
        })
        .collect();
    let mut faults = vec![];
    for source in sources.iter().filter(|source| !source.is_test()) {
        let lines = source.text.lines().count();
        let functions = functions(&source.text)
            .into_iter()
            .map(|(name, length)| (format!("{}::{name}", source.path), length, FUNCTION_LINES_MAX));
        for (what, length, max) in std::iter::once((source.path.clone(), lines, FILE_LINES_MAX)).chain(functions) {
            match allowed.remove(what.as_str()) {
                Some(listed) if length > listed => {
                    faults.push(format!("{what} has grown from {listed} to {length} lines; the most is {max}"))
                }
                Some(listed) if length < listed && length > max => {
                    faults.push(format!("{what} has {length} lines now: write that into allowed.txt"))
                }
                Some(_) if length <= max => faults.push(format!("{what} is short enough now: take it out of allowed.txt")),
                None if length > max => faults.push(format!("{what} has {length} lines; the most is {max}")),
                _ => {}
            }
        }
    }
    faults.extend(allowed.keys().map(|what| format!("{what} is gone: take it out of allowed.txt")));
    faults
}

/// Every function with a body: its name and how many lines it has, from `fn` to its last bracket.
pub fn functions(text: &str) -> Vec<(String, usize)> {
    let code: Vec<char> = blanked(text).chars().collect();
    let mut found = vec![];
    let mut index = 0;
    while let Some(start) = find_fn(&code, index) {
        index = start + 2;
        let name: String = code[start + 3..]
            .iter()
            .skip_while(|c| c.is_whitespace())
            .take_while(|c| c.is_alphanumeric() || **c == '_')
            .collect();
        if let Some(end) = body_end(&code, start) {
            let lines = code[start..end].iter().filter(|c| **c == '\n').count() + 1;
            found.push((name, lines));
        }
    }
    found
}

fn find_fn(code: &[char], from: usize) -> Option<usize> {
    let is_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
    (from..code.len().saturating_sub(3)).find(|&at| {
        code[at] == 'f'
            && code[at + 1] == 'n'
            && code[at + 2] == ' '
            && (code[at + 3].is_alphabetic() || code[at + 3] == '_')
            && !(at > 0 && is_word(code.get(at - 1)))
    })
}

/// Where the body that follows ends; none if a semicolon comes first, as in a trait.
fn body_end(code: &[char], start: usize) -> Option<usize> {
    let (mut depth, mut round) = (0usize, 0usize);
    for (at, c) in code.iter().enumerate().skip(start) {
        match c {
            '(' | '[' => round += 1,
            ')' | ']' => round = round.saturating_sub(1),
            ';' if depth == 0 && round == 0 => return None,
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// The text with comments, strings and characters replaced by blanks, so that only brackets of code are left.
fn blanked(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = literal_end(&chars, at);
        if end > at {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        } else {
            out.push(chars[at]);
            at += 1;
        }
    }
    out
}

/// The end of the comment, string or character that starts here; `at` itself if none does.
fn literal_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match chars[at] {
        '/' if next == Some('/') => (at..chars.len()).find(|i| chars[*i] == '\n').unwrap_or(chars.len()),
        '/' if next == Some('*') => {
            (at + 2..chars.len()).find(|i| chars[*i] == '*' && chars.get(i + 1) == Some(&'/')).map_or(chars.len(), |i| i + 2)
        }
        'r' if !after_word && matches!(next, Some('"' | '#')) => raw_end(chars, at).unwrap_or(at),
        '"' => quoted_end(chars, at + 1),
        '\'' if next == Some('\\') => (at + 3..chars.len()).find(|i| chars[*i] == '\'').map_or(chars.len(), |i| i + 1),
        '\'' if chars.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn quoted_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn raw_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: &usize| chars[*i] == '"' && chars[i + 1..].iter().take(hashes).filter(|c| **c == '#').count() == hashes;
    Some((open + 1..chars.len()).find(closes).map_or(chars.len(), |i| i + 1 + hashes))
}

#[test]
fn functions_are_found_whatever_stands_in_strings() {
    let text = "fn a() {\n    let x = \"}\"; // }\n    let c = '}';\n}\n\ntrait T {\n    fn b(&self);\n}\nfn c<'a>(x: [u8; 2]) -> &'a str {\n    r#\"}\n\"#\n}\n";
    assert_eq!(functions(text), [("a".to_string(), 4), ("c".to_string(), 4)]);
}
