//! `xml`: content that is well-formed. Documents are not checked against a type, and names in entities not looked up.

use crate::error::{SqlError, SqlResult, SqlState};

/// The text as it is kept: without a declaration that says no more than every document does.
///
/// # Errors
/// `2200N` for a text that is not well-formed.
pub fn checked(text: &str) -> SqlResult<String> {
    let bad = |detail: String| SqlError::new(SqlState::InvalidXmlContent, "invalid XML content").with_detail(detail);
    let (declaration, content) = declaration(text).map_err(bad)?;
    let mut open: Vec<&str> = vec![];
    let mut rest = content;
    while let Some(at) = rest.find(['<', '&']) {
        let markup = &rest[at..];
        rest = if markup.starts_with('&') { entity(markup) } else { tag(markup, &mut open) }.map_err(bad)?;
    }
    match open.pop() {
        Some(name) => Err(bad(format!("The element \"{name}\" does not end."))),
        None => Ok(declaration + content),
    }
}

type Read<'a> = Result<&'a str, String>;

/// What is kept of the declaration in front, and what follows it: encodings are the connection's, and the first version is the usual.
fn declaration(text: &str) -> Result<(String, &str), String> {
    let Some(inner) = text.strip_prefix("<?xml").filter(|rest| rest.starts_with(char::is_whitespace)) else {
        return Ok((String::new(), text));
    };
    let (inner, rest) = inner.split_once("?>").ok_or("The declaration does not end.")?;
    let (mut version, mut standalone) = (None, None);
    let mut attributes = inner.trim();
    while !attributes.is_empty() {
        let (name, value, after) = attribute(attributes)?;
        match name {
            "version" => version = Some(value),
            "encoding" => {}
            "standalone" if matches!(value, "yes" | "no") => standalone = Some(value),
            other => return Err(format!("The declaration can't say \"{other}\".")),
        }
        attributes = after.trim_start();
    }
    let version = version.ok_or("The declaration has no version.")?;
    Ok(match (version, standalone) {
        ("1.0", None) => (String::new(), rest),
        (version, None) => (format!("<?xml version=\"{version}\"?>"), rest),
        (version, Some(alone)) => (format!("<?xml version=\"{version}\" standalone=\"{alone}\"?>"), rest),
    })
}

/// What follows the tag, comment, section or instruction that a text begins with.
fn tag<'a>(text: &'a str, open: &mut Vec<&'a str>) -> Read<'a> {
    let past =
        |inner: &'a str, end: &str| inner.split_once(end).map(|(_, rest)| rest).ok_or_else(|| format!("\"{end}\" is missing."));
    if let Some(inner) = text.strip_prefix("<!--") {
        let rest = past(inner, "--")?;
        return rest.strip_prefix('>').ok_or_else(|| "There is \"--\" in a comment.".to_string());
    }
    if let Some(inner) = text.strip_prefix("<![CDATA[") {
        return past(inner, "]]>");
    }
    if let Some(inner) = text.strip_prefix("<?") {
        let (name, _) = name(inner).ok_or("An instruction has no name.")?;
        return if name.eq_ignore_ascii_case("xml") {
            Err("A declaration can only stand at the beginning.".to_string())
        } else {
            past(inner, "?>")
        };
    }
    if let Some(inner) = text.strip_prefix("</") {
        let (name, rest) = name(inner).ok_or("A tag has no name.")?;
        if open.pop() != Some(name) {
            return Err(format!("The element \"{name}\" ends where it did not begin."));
        }
        return rest.trim_start().strip_prefix('>').ok_or_else(|| "\">\" is missing.".to_string());
    }
    let (name, mut rest) = name(&text[1..]).ok_or("A tag has no name.")?;
    let mut seen = vec![];
    loop {
        let trimmed = rest.trim_start();
        if let Some(rest) = trimmed.strip_prefix("/>") {
            return Ok(rest);
        }
        if let Some(rest) = trimmed.strip_prefix('>') {
            open.push(name);
            return Ok(rest);
        }
        if trimmed.len() == rest.len() {
            return Err(format!("The tag of \"{name}\" does not end."));
        }
        let (attribute, value, after) = attribute(trimmed)?;
        if seen.contains(&attribute) {
            return Err(format!("The attribute \"{attribute}\" is there twice."));
        }
        seen.push(attribute);
        check_value(value)?;
        rest = after;
    }
}

/// `name="value"`: both, and what follows.
fn attribute(text: &str) -> Result<(&str, &str, &str), String> {
    let (name, rest) = name(text).ok_or("An attribute has no name.")?;
    let rest = rest.trim_start().strip_prefix('=').ok_or_else(|| format!("The attribute \"{name}\" has no value."))?.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''));
    let quote = quote.ok_or_else(|| format!("The value of the attribute \"{name}\" is not in quotes."))?;
    let (value, rest) = rest[1..].split_once(quote).ok_or_else(|| format!("The value of \"{name}\" does not end."))?;
    Ok((name, value, rest))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.contains('<') {
        return Err("There is \"<\" in the value of an attribute.".to_string());
    }
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        rest = entity(&rest[at..])?;
    }
    Ok(())
}

/// What follows the entity that a text begins with.
fn entity(text: &str) -> Read<'_> {
    let (name, rest) = text[1..].split_once(';').ok_or("An entity does not end.")?;
    let code = match (name.strip_prefix("#x"), name.strip_prefix('#')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (_, Some(digits)) => digits.parse().ok(),
        _ => {
            let is_known = matches!(name, "lt" | "gt" | "amp" | "apos" | "quot");
            return if is_known { Ok(rest) } else { Err(format!("The entity \"{name}\" is not defined.")) };
        }
    };
    code.and_then(char::from_u32).map(|_| rest).ok_or_else(|| format!("The entity \"{name}\" is no character."))
}

/// The name that a text begins with, and what follows it.
fn name(text: &str) -> Option<(&str, &str)> {
    let starts = |c: char| c.is_alphabetic() || matches!(c, '_' | ':');
    let goes_on = |c: char| starts(c) || c.is_numeric() || matches!(c, '-' | '.');
    let end = text.find(|c: char| !goes_on(c)).unwrap_or(text.len());
    text.starts_with(starts).then(|| text.split_at(end))
}
