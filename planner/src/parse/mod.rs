//! Text to statements.
//!
//! The whole text is read before anything of it runs. What Postgres has and `sqlparser` reads well (queries, data changes,
//! types, expressions) goes to `sqlparser`; the frame of every other statement is read here, token by token, so that an
//! error names the token at fault and its place, as Postgres does.

mod access;
mod clauses;
mod copy;
mod create;
mod cursor;
mod errors;
mod objects;
mod settings;
mod statement;
mod tokens;
mod typed;
mod types;

use crate::statement::{ParsedStatement, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};
use thalweg_catalog::{SqlError, SqlResult, SqlState};
use tokens::Tokens;

pub(crate) use statement::select_all;
pub(crate) use tokens::fold;

/// The most bytes of text that are read at once.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// The statements of a text, in order; none if it holds only comments and semicolons.
///
/// # Errors
/// `42601` for text that is no statement and `0A000` for a statement of Postgres that is not there, with the position in the
/// whole text. No statement is returned then: a text with a fault in it does nothing.
pub fn parse(sql: &str) -> SqlResult<Vec<ParsedStatement>> {
    if sql.len() > TEXT_BYTES_MAX {
        return Err(SqlError::new(SqlState::ProgramLimitExceeded, "the text is too long")
            .with_detail(format!("It has {} bytes; the most is {TEXT_BYTES_MAX}.", sql.len())));
    }
    let tokens = tokenize(sql)?;
    let mut statements = vec![];
    for piece in tokens.split(|t| t.token == Token::SemiColon) {
        let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
        // Tokens carry their places in the whole text here: from 1, the end exclusive.
        let (start, end) = (column(first.span.start), column(last.span.end));
        let text: String = slice(sql, start, end).to_string();
        let offset = start - 1;
        let rebased: Vec<TokenWithSpan> = piece.iter().map(|t| rebase(t, offset)).collect();
        let statement = parse_one(&rebased, &text).map_err(|e| shifted(e, offset))?;
        statements.push(ParsedStatement { statement, text, offset });
    }
    Ok(statements)
}

/// The one query that a text holds, as it stands in a view's definition.
///
/// # Errors
/// As [`parse`], and `42601` if the text is anything but one query.
pub fn parse_query(sql: &str) -> SqlResult<Box<ast::Query>> {
    let mut statements = parse(sql)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(ParsedStatement { statement: Statement::Query(query), .. }), true) => Ok(query),
        _ => Err(SqlError::syntax("expected one query").at(1)),
    }
}

/// The one expression that a text holds, as it stands in a column's default.
///
/// # Errors
/// As [`parse`], and `42601` if the text is anything but one expression.
pub fn parse_expr(sql: &str) -> SqlResult<ast::Expr> {
    let tokens = tokenize(sql)?;
    let mut tokens = Tokens::new(&tokens, sql);
    let expr = tokens.sql(|p| p.parse_expr())?;
    tokens.end()?;
    Ok(expr)
}

fn parse_one(tokens: &[TokenWithSpan], text: &str) -> SqlResult<Statement> {
    let mut tokens = Tokens::new(tokens, text);
    let statement = statement::statement(&mut tokens)?;
    tokens.end()?;
    Ok(statement)
}

/// All tokens but white space, each with its place as a character count: `line` is 1 and `column` counts from 1.
fn tokenize(sql: &str) -> SqlResult<Vec<TokenWithSpan>> {
    let lines = line_starts(sql);
    let place = |l: Location| lines.get((l.line as usize).wrapping_sub(1)).copied().unwrap_or(0) + l.column as usize;
    let dialect = PostgreSqlDialect {};
    let tokens = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|e| errors::tokenizer_error(&e.message, place(e.location), sql))?;
    let tokens = tokens
        .into_iter()
        .filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF))
        .map(|t| TokenWithSpan { span: Span::new(at(place(t.span.start)), at(place(t.span.end))), token: t.token })
        .collect();
    Ok(crate::rewrite::with_marks(typed::as_casts(without_flink_table(tokens))))
}

/// Flink writes `TABLE(TUMBLE(TABLE t, …))`; without the inner `TABLE` it is a function call like any other.
fn without_flink_table(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_word = |token: &TokenWithSpan, words: &[&str]| match &token.token {
        Token::Word(w) => w.quote_style.is_none() && words.iter().any(|word| w.value.eq_ignore_ascii_case(word)),
        _ => false,
    };
    let mut index = 0;
    while index + 4 < tokens.len() {
        let found = is_word(&tokens[index], &["table"])
            && tokens[index + 1].token == Token::LParen
            && is_word(&tokens[index + 2], &["tumble", "hop"])
            && tokens[index + 3].token == Token::LParen
            && is_word(&tokens[index + 4], &["table"]);
        if found {
            tokens.remove(index + 4);
        }
        index += 1;
    }
    tokens
}

/// How many characters stand before each line.
fn line_starts(sql: &str) -> Vec<usize> {
    let newlines = sql.chars().enumerate().filter(|(_, c)| *c == '\n').map(|(index, _)| index + 1);
    std::iter::once(0).chain(newlines).collect()
}

fn at(column: usize) -> Location {
    Location::new(1, column as u64)
}

fn column(location: Location) -> usize {
    location.column as usize
}

fn rebase(token: &TokenWithSpan, offset: usize) -> TokenWithSpan {
    let moved = |l: Location| at(column(l) - offset);
    TokenWithSpan { token: token.token.clone(), span: Span::new(moved(token.span.start), moved(token.span.end)) }
}

/// The part of a text between two places in characters from 1, the end exclusive.
fn slice(text: &str, start: usize, end: usize) -> &str {
    let byte = |place: usize| text.char_indices().nth(place.saturating_sub(1)).map_or(text.len(), |(index, _)| index);
    if text.is_ascii() {
        &text[(start.saturating_sub(1)).min(text.len())..(end.saturating_sub(1)).min(text.len())]
    } else {
        &text[byte(start)..byte(end)]
    }
}

fn shifted(mut error: SqlError, offset: usize) -> SqlError {
    error.position = error.position.map(|p| p + offset);
    error
}

#[cfg(test)]
mod tests;
