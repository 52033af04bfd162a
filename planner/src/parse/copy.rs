//! `COPY` and `SUBSCRIBE`.

use super::tokens::Tokens;
use super::{clauses, statement};
use crate::statement::{Copy, CopyDirection, CopyFormat, CopyOptions, Statement, Subscribe, SubscribeInput};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::collections::BTreeMap;
use thalweg_catalog::options::Options;
use thalweg_catalog::{SqlError, SqlResult, suggest};

/// `SUBSCRIBE [TO] rel [WITH (…)]`, `SUBSCRIBE (query)`.
pub(super) fn subscribe(tokens: &mut Tokens<'_>) -> SqlResult<Subscribe> {
    tokens.expect(&["subscribe"])?;
    tokens.accept(&["to"]);
    let input = if tokens.peek(0) == Some(&Token::LParen) {
        SubscribeInput::Query(clauses::query_of(&mut tokens.parenthesized()?)?)
    } else {
        SubscribeInput::Relation(tokens.name()?)
    };
    let position = tokens.position();
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    if tokens.is_word(0, "with") {
        tokens.expect(&["with"])?;
        values = subscribe_options(tokens)?;
    }
    // What is there already comes first unless it is switched off.
    values.entry("snapshot".into()).or_insert_with(|| "true".into());
    let mut options = Options::new("SUBSCRIBE", &values);
    let read = |options: &mut Options| -> SqlResult<(bool, bool)> { Ok((options.flag("snapshot")?, options.flag("progress")?)) };
    let (snapshot, progress) = read(&mut options).map_err(|e| e.at(position))?;
    options.finish().map_err(|e| e.at(position))?;
    Ok(Subscribe { input, snapshot, progress })
}

/// `(snapshot = false, progress)`: a name alone means true.
fn subscribe_options(tokens: &mut Tokens<'_>) -> SqlResult<BTreeMap<String, String>> {
    let mut inside = tokens.parenthesized()?;
    let pairs = inside.comma_separated(|t| {
        let name = t.column_label()?;
        if t.is_done() || t.peek(0) == Some(&Token::Comma) {
            return Ok((name.value, "true".to_string()));
        }
        t.accept_token(&Token::Eq);
        let value = match t.peek(0) {
            Some(Token::Word(_)) => t.column_label()?.value,
            _ => t.string()?,
        };
        Ok((name.value, value))
    })?;
    inside.end()?;
    Ok(pairs.into_iter().collect())
}

/// `COPY …`.
pub(super) fn copy(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["copy"])?;
    let mut options = CopyOptions::default();
    if tokens.is_word(0, "binary")
        && matches!(tokens.peek(1), Some(Token::Word(_)))
        && !tokens.is_word(1, "to")
        && !tokens.is_word(1, "from")
    {
        tokens.expect(&["binary"])?;
        options.format = CopyFormat::Binary;
    }
    let direction = if tokens.peek(0) == Some(&Token::LParen) {
        let direction = copy_source(&mut tokens.parenthesized()?)?;
        tokens.expect(&["to"])?;
        endpoint(tokens, "stdout")?;
        direction
    } else {
        let name = tokens.name()?;
        let columns = if tokens.peek(0) == Some(&Token::LParen) { tokens.word_list()? } else { vec![] };
        if tokens.accept(&["from"]) {
            endpoint(tokens, "stdin")?;
            CopyDirection::From { name, columns }
        } else {
            tokens.expect(&["to"])?;
            endpoint(tokens, "stdout")?;
            CopyDirection::ToFromRelation { name, columns }
        }
    };
    copy_options(tokens, &mut options)?;
    Ok(Statement::Copy(Copy { direction, options }))
}

fn copy_source(inside: &mut Tokens<'_>) -> SqlResult<CopyDirection> {
    if inside.is_word(0, "subscribe") {
        let subscribe = subscribe(inside)?;
        inside.end()?;
        return Ok(CopyDirection::ToFromSubscribe(subscribe));
    }
    if ["insert", "update", "delete"].iter().any(|word| inside.is_word(0, word)) {
        let inner = statement::statement(inside)?;
        inside.end()?;
        return Ok(CopyDirection::ToFromStatement(Box::new(inner)));
    }
    clauses::query_of(inside).map(CopyDirection::ToFromQuery)
}

fn endpoint(tokens: &mut Tokens<'_>, word: &str) -> SqlResult<()> {
    let position = tokens.position();
    if tokens.is_word(0, "program") || matches!(tokens.peek(0), Some(Token::SingleQuotedString(_))) {
        return Err(SqlError::unsupported("COPY with a file or program of the server is not supported")
            .with_hint("Use STDIN or STDOUT, such as psql's \\copy does; or a source or sink with connector = 'file'.")
            .at(position));
    }
    // Postgres takes either word for either way.
    if tokens.accept(&[word]) || tokens.accept(&["stdin"]) || tokens.accept(&["stdout"]) { Ok(()) } else { Err(tokens.error()) }
}

fn copy_options(tokens: &mut Tokens<'_>, options: &mut CopyOptions) -> SqlResult<()> {
    let position = tokens.position();
    tokens.accept(&["with"]);
    if tokens.peek(0) == Some(&Token::LParen) {
        let mut inside = tokens.parenthesized()?;
        loop {
            copy_option(&mut inside, options)?;
            if !inside.accept_token(&Token::Comma) {
                break;
            }
        }
        inside.end()?;
    } else {
        while !tokens.is_done() {
            old_copy_option(tokens, options)?;
        }
    }
    check_copy_options(options).map_err(|e| e.at(position))
}

/// One option in parentheses: `FORMAT csv`, `HEADER true`, ….
fn copy_option(tokens: &mut Tokens<'_>, options: &mut CopyOptions) -> SqlResult<()> {
    const KNOWN: [&str; 9] =
        ["format", "delimiter", "null", "header", "quote", "escape", "force_quote", "force_not_null", "force_null"];
    let word = tokens.column_label()?;
    match word.value.as_str() {
        "format" => {
            let format = match tokens.peek(0) {
                Some(Token::Word(_)) => tokens.column_label()?.value,
                _ => tokens.string()?,
            };
            options.format = match format.to_lowercase().as_str() {
                "text" => CopyFormat::Text,
                "csv" => CopyFormat::Csv,
                "binary" => CopyFormat::Binary,
                other => {
                    return Err(SqlError::invalid_parameter(format!("COPY format \"{other}\" not recognized"))
                        .with_hint("Use text, csv or binary.")
                        .at(word.position));
                }
            };
        }
        "delimiter" => options.delimiter = Some(tokens.string()?),
        "null" => options.null = Some(tokens.string()?),
        "quote" => options.quote = Some(tokens.string()?),
        "escape" => options.escape = Some(tokens.string()?),
        "header" => options.header = copy_flag(tokens)?,
        "freeze" => _ = copy_flag(tokens)?,
        "encoding" => {
            let encoding = tokens.string()?;
            if !["utf8", "utf-8", "unicode"].contains(&encoding.to_lowercase().as_str()) {
                return Err(SqlError::unsupported(format!("encoding \"{encoding}\" is not supported"))
                    .with_hint("Use UTF8.")
                    .at(word.position));
            }
        }
        "force_quote" if tokens.accept_token(&Token::Mul) => options.force_quote = Some(vec![]),
        "force_quote" => options.force_quote = Some(column_names(tokens)?),
        "force_not_null" => options.force_not_null = column_names(tokens)?,
        "force_null" => options.force_null = column_names(tokens)?,
        name @ ("on_error" | "default") => {
            return Err(SqlError::unsupported(format!("COPY option \"{name}\" is not supported")).at(word.position));
        }
        other => {
            return Err(SqlError::syntax(format!("option \"{other}\" not recognized"))
                .with_hint(suggest::hint(other, KNOWN.iter().copied()))
                .at(word.position));
        }
    }
    Ok(())
}

fn column_names(tokens: &mut Tokens<'_>) -> SqlResult<Vec<String>> {
    Ok(tokens.word_list()?.into_iter().map(|word| word.value).collect())
}

fn copy_flag(tokens: &mut Tokens<'_>) -> SqlResult<bool> {
    if tokens.is_done() || tokens.peek(0) == Some(&Token::Comma) {
        return Ok(true);
    }
    let position = tokens.position();
    let value = match tokens.next()? {
        Token::Word(w) => w.value.to_lowercase(),
        Token::Number(text, _) | Token::SingleQuotedString(text) => text.to_lowercase(),
        _ => String::new(),
    };
    match value.as_str() {
        "true" | "on" | "1" | "match" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(SqlError::syntax("a COPY option requires a Boolean value").at(position)),
    }
}

/// One option as Postgres had them before 9.0: `CSV HEADER DELIMITER AS ','`.
fn old_copy_option(tokens: &mut Tokens<'_>, options: &mut CopyOptions) -> SqlResult<()> {
    if tokens.accept(&["binary"]) {
        options.format = CopyFormat::Binary;
    } else if tokens.accept(&["csv"]) {
        options.format = CopyFormat::Csv;
    } else if tokens.accept(&["header"]) {
        options.header = true;
    } else if tokens.accept(&["force", "quote"]) {
        options.force_quote = Some(if tokens.accept_token(&Token::Mul) { vec![] } else { plain_names(tokens)? });
    } else if tokens.accept(&["force", "not", "null"]) {
        options.force_not_null = plain_names(tokens)?;
    } else if tokens.accept(&["force", "null"]) {
        options.force_null = plain_names(tokens)?;
    } else if let Some(word) = tokens.peek_keyword()
        && ["delimiter", "delimiters", "null", "quote", "escape"].contains(&word.as_str())
    {
        tokens.next()?;
        tokens.accept(&["as"]);
        let value = Some(tokens.string()?);
        match word.as_str() {
            "null" => options.null = value,
            "quote" => options.quote = value,
            "escape" => options.escape = value,
            _ => options.delimiter = value,
        }
    } else {
        return Err(tokens.error());
    }
    Ok(())
}

fn plain_names(tokens: &mut Tokens<'_>) -> SqlResult<Vec<String>> {
    tokens.comma_separated(|t| t.word().map(|word| word.value))
}

fn check_copy_options(options: &CopyOptions) -> SqlResult<()> {
    for (name, value) in [("delimiter", &options.delimiter), ("quote", &options.quote), ("escape", &options.escape)] {
        if value.as_ref().is_some_and(|v| v.len() != 1) {
            return Err(SqlError::unsupported(format!("COPY {name} must be a single one-byte character")));
        }
    }
    if options.format != CopyFormat::Csv && (options.quote.is_some() || options.escape.is_some()) {
        return Err(SqlError::unsupported("COPY QUOTE and ESCAPE require CSV mode"));
    }
    let forces = options.force_quote.is_some() || !options.force_not_null.is_empty() || !options.force_null.is_empty();
    if options.format != CopyFormat::Csv && forces {
        return Err(SqlError::unsupported("COPY FORCE_QUOTE, FORCE_NOT_NULL and FORCE_NULL require CSV mode"));
    }
    if options.format == CopyFormat::Binary && (options.header || options.delimiter.is_some() || options.null.is_some()) {
        return Err(SqlError::syntax("cannot specify HEADER, DELIMITER or NULL in BINARY mode"));
    }
    Ok(())
}
