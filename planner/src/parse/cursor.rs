//! Cursors and prepared statements.

use super::tokens::Tokens;
use super::{clauses, copy, statement};
use crate::statement::{CursorBody, Declare, FetchDirection, Statement};
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::{SqlError, SqlResult};

/// `DECLARE name … CURSOR … FOR …`.
pub(super) fn declare(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["declare"])?;
    let name = tokens.word()?;
    let (mut binary, mut scroll, mut hold) = (false, None, false);
    while !tokens.accept(&["cursor"]) {
        if tokens.accept(&["binary"]) {
            binary = true;
        } else if tokens.accept(&["no", "scroll"]) {
            scroll = Some(false);
        } else if tokens.accept(&["scroll"]) {
            scroll = Some(true);
        } else if !tokens.accept(&["insensitive"]) && !tokens.accept(&["asensitive"]) {
            return Err(tokens.error());
        }
    }
    if tokens.accept(&["with", "hold"]) {
        hold = true;
    } else {
        tokens.accept(&["without", "hold"]);
    }
    tokens.expect(&["for"])?;
    let body = if tokens.is_word(0, "subscribe") {
        CursorBody::Subscribe(copy::subscribe(tokens)?)
    } else {
        CursorBody::Query(clauses::query_of(tokens)?)
    };
    Ok(Statement::Declare(Declare { name, binary, scroll, hold, body }))
}

/// `FETCH` and `MOVE`, with or without a direction, with or without `FROM` or `IN`.
pub(super) fn fetch(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let move_only = tokens.is_word(0, "move");
    tokens.next()?;
    let direction = fetch_direction(tokens)?;
    if !tokens.accept(&["from"]) {
        tokens.accept(&["in"]);
    }
    let cursor = tokens.word()?;
    Ok(Statement::Fetch { direction, cursor, move_only })
}

fn fetch_direction(tokens: &mut Tokens<'_>) -> SqlResult<FetchDirection> {
    if matches!(tokens.peek(0), Some(Token::Number(..) | Token::Minus | Token::Plus)) {
        return tokens.integer().map(FetchDirection::Forward);
    }
    // A lone word is the cursor's name, even one that could be a direction.
    if tokens.peek(1).is_none() {
        return Ok(FetchDirection::Forward(1));
    }
    let Some(word) = tokens.peek_keyword() else { return Ok(FetchDirection::Forward(1)) };
    let simple = match word.as_str() {
        "next" => Some(FetchDirection::Forward(1)),
        "prior" => Some(FetchDirection::Forward(-1)),
        "first" => Some(FetchDirection::Absolute(1)),
        "last" => Some(FetchDirection::Absolute(-1)),
        "all" => Some(FetchDirection::ForwardAll),
        _ => None,
    };
    if let Some(direction) = simple {
        tokens.next()?;
        return Ok(direction);
    }
    match word.as_str() {
        "absolute" => {
            tokens.next()?;
            tokens.integer().map(FetchDirection::Absolute)
        }
        "relative" => {
            tokens.next()?;
            tokens.integer().map(FetchDirection::Relative)
        }
        "forward" | "backward" => {
            tokens.next()?;
            let back = word == "backward";
            if tokens.accept(&["all"]) {
                return Ok(if back { FetchDirection::BackwardAll } else { FetchDirection::ForwardAll });
            }
            let count = match tokens.peek(0) {
                Some(Token::Number(..) | Token::Minus | Token::Plus) => tokens.integer()?,
                _ => 1,
            };
            Ok(FetchDirection::Forward(if back { -count } else { count }))
        }
        _ => Ok(FetchDirection::Forward(1)),
    }
}

/// `CLOSE c`, `CLOSE ALL`.
pub(super) fn close(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["close"])?;
    if tokens.accept(&["all"]) {
        return Ok(Statement::Close(None));
    }
    tokens.word().map(|name| Statement::Close(Some(name)))
}

/// `PREPARE name [(types)] AS statement`.
pub(super) fn prepare(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["prepare"])?;
    if tokens.is_word(0, "transaction") {
        return Err(SqlError::unsupported("PREPARE TRANSACTION is not supported")
            .with_hint("There are no two-phase transactions.")
            .at(tokens.position()));
    }
    let name = tokens.word()?;
    let mut types = vec![];
    if tokens.peek(0) == Some(&Token::LParen) {
        let mut inside = tokens.parenthesized()?;
        types = inside.comma_separated(|t| t.sql(|p| p.parse_data_type()))?;
        inside.end()?;
    }
    tokens.expect(&["as"])?;
    let position = tokens.position();
    let mark = tokens.mark();
    let inner = statement::statement(tokens)?;
    let text = tokens.text_since(mark).to_string();
    if !matches!(inner, Statement::Query(_) | Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_)) {
        return Err(SqlError::syntax(format!("{} cannot be prepared", inner.tag()))
            .with_detail("Queries and INSERT, UPDATE and DELETE can be prepared.")
            .at(position));
    }
    Ok(Statement::Prepare { name, types, statement: Box::new(inner), text })
}

/// `EXECUTE name [(values)]`.
pub(super) fn execute(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["execute"])?;
    let name = tokens.word()?;
    let mut values = vec![];
    if tokens.peek(0) == Some(&Token::LParen) {
        let mut inside = tokens.parenthesized()?;
        if !inside.is_done() {
            values = inside.comma_separated(|t| t.sql(|p| p.parse_expr()))?;
        }
        inside.end()?;
    }
    Ok(Statement::Execute { name, values })
}

/// `DEALLOCATE [PREPARE] name`, `DEALLOCATE ALL`.
pub(super) fn deallocate(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["deallocate"])?;
    if tokens.peek(1).is_some() {
        tokens.accept(&["prepare"]);
    }
    if tokens.accept(&["all"]) {
        return Ok(Statement::Deallocate(None));
    }
    tokens.word().map(|name| Statement::Deallocate(Some(name)))
}
