//! What `sqlparser` says, as Postgres would say it.

use datafusion::sql::sqlparser::parser::ParserError;
use thalweg_catalog::{SqlError, SqlState};

/// The error for text that can't be cut into tokens.
pub(super) fn tokenizer_error(message: &str, position: usize, sql: &str) -> SqlError {
    let rest: String = sql.chars().skip(position.saturating_sub(1)).take(20).collect();
    let message = message.to_lowercase();
    let shown = if message.contains("unterminated") && message.contains("string") {
        format!("unterminated quoted string at or near \"{rest}\"")
    } else if message.contains("comment") {
        "unterminated comment".to_string()
    } else {
        format!("syntax error: {message}")
    };
    SqlError::syntax(shown).at(position)
}

/// The error for tokens that make no statement. `token_at` gives the text of the token at a place, none at the end.
pub(super) fn parser_error(error: ParserError, fallback: usize, token_at: impl Fn(usize) -> Option<String>) -> SqlError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return SqlError::new(SqlState::StatementTooComplex, "the statement is nested too deeply")
                .with_hint("Split it up, for example with WITH or views.");
        }
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => message,
    };
    let (head, place) = split_location(&message);
    let position = place.unwrap_or(fallback);
    let expected = head.strip_prefix("Expected: ").and_then(|rest| rest.split_once(", found: ")).map(|(what, _)| what);
    let error = near(token_at(position), position);
    match expected {
        Some(what) => error.with_detail(format!("Expected {what}.")),
        None => error.with_detail(format!("{}.", head.trim_end_matches('.'))),
    }
}

/// `syntax error at or near "token"`, or at the end.
pub(super) fn near(token: Option<String>, position: usize) -> SqlError {
    match token {
        Some(token) => SqlError::syntax(format!("syntax error at or near \"{token}\"")).at(position),
        None => SqlError::syntax("syntax error at end of input").at(position),
    }
}

/// The message without the place that `sqlparser` appends, and the place's column; all tokens are on line 1.
fn split_location(message: &str) -> (&str, Option<usize>) {
    match message.rsplit_once(" at Line: ") {
        Some((head, tail)) => {
            let column = tail.split_once("Column: ").and_then(|(_, column)| column.trim().parse().ok());
            (head, column.filter(|c| *c > 0))
        }
        None => (message, None),
    }
}
