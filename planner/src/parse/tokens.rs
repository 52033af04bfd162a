//! A cursor over the tokens of one statement.

use super::errors;
use crate::statement::{Name, Word};
use datafusion::sql::sqlparser::ast::{Ident, Query, Visit, visit_relations};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;
use thalweg_catalog::{SqlError, SqlResult};

/// How deep expressions and queries may nest.
const DEPTH_MAX: usize = 128;

/// Words that are no names unless quoted: those of Postgres's reserved ones whose misuse would hide a mistake.
const RESERVED: [&str; 58] = [
    "all",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "leading",
    "limit",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "primary",
    "references",
    "returning",
    "select",
    "some",
    "table",
    "then",
    "to",
    "true",
    "union",
    "unique",
    "using",
    "when",
    "where",
    "with",
];

/// The tokens from here to an end, within one statement. Places are in characters from 1 in `text`.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    all: &'a [TokenWithSpan],
    text: &'a str,
    at: usize,
    end: usize,
}

impl<'a> Tokens<'a> {
    /// All tokens of a statement with this text.
    pub(super) fn new(all: &'a [TokenWithSpan], text: &'a str) -> Tokens<'a> {
        Tokens { all, text, at: 0, end: all.len() }
    }

    /// The token `ahead` of the next one.
    pub(super) fn peek(&self, ahead: usize) -> Option<&'a Token> {
        let index = self.at + ahead;
        (index < self.end).then(|| &self.all[index].token)
    }

    /// Whether nothing is left.
    pub(super) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// The place of the next token; just behind the last one at the end.
    pub(super) fn position(&self) -> usize {
        match self.all.get(self.at) {
            Some(token) => token.span.start.column as usize,
            None => self.all.last().map_or(1, |t| t.span.end.column as usize),
        }
    }

    /// The index of the next token, for [`Tokens::text_since`].
    pub(super) fn mark(&self) -> usize {
        self.at
    }

    /// The text from a mark up to here.
    pub(super) fn text_since(&self, mark: usize) -> &'a str {
        if mark >= self.at {
            return "";
        }
        let (first, last) = (&self.all[mark], &self.all[self.at - 1]);
        super::slice(self.text, first.span.start.column as usize, last.span.end.column as usize)
    }

    /// The error that the next token does not belong here.
    pub(super) fn error(&self) -> SqlError {
        errors::near(self.all.get(self.at).map(|t| self.token_text(t)), self.position())
    }

    fn token_text(&self, token: &TokenWithSpan) -> String {
        super::slice(self.text, token.span.start.column as usize, token.span.end.column as usize).to_string()
    }

    /// Refuses what is left.
    pub(super) fn end(&self) -> SqlResult<()> {
        if self.is_done() { Ok(()) } else { Err(self.error()) }
    }

    /// Whether the token `ahead` of the next one is this word, unquoted, in any case.
    pub(super) fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek(ahead), Some(Token::Word(w)) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Whether these words come next.
    pub(super) fn are_words(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(ahead, word)| self.is_word(ahead, word))
    }

    /// Passes over these words if they come next, all or none.
    pub(super) fn accept(&mut self, words: &[&str]) -> bool {
        let found = self.are_words(words);
        if found {
            self.at += words.len();
        }
        found
    }

    /// Passes over these words.
    pub(super) fn expect(&mut self, words: &[&str]) -> SqlResult<()> {
        for word in words {
            if !self.accept(&[word]) {
                return Err(self.error());
            }
        }
        Ok(())
    }

    /// Passes over this token if it comes next.
    pub(super) fn accept_token(&mut self, token: &Token) -> bool {
        let found = self.peek(0) == Some(token);
        if found {
            self.at += 1;
        }
        found
    }

    /// Passes over this token.
    pub(super) fn expect_token(&mut self, token: &Token) -> SqlResult<()> {
        if self.accept_token(token) { Ok(()) } else { Err(self.error()) }
    }

    /// Passes over the next token, whatever it is.
    pub(super) fn next(&mut self) -> SqlResult<&'a Token> {
        let token = self.peek(0).ok_or_else(|| self.error())?;
        self.at += 1;
        Ok(token)
    }

    /// The next unquoted word in lower case, without passing over it.
    pub(super) fn peek_keyword(&self) -> Option<String> {
        match self.peek(0) {
            Some(Token::Word(w)) if w.quote_style.is_none() => Some(w.value.to_ascii_lowercase()),
            _ => None,
        }
    }

    /// A name of one word.
    pub(super) fn word(&mut self) -> SqlResult<Word> {
        let position = self.position();
        match self.peek(0) {
            Some(Token::Word(w)) => {
                let value = if w.quote_style.is_some() { w.value.clone() } else { w.value.to_ascii_lowercase() };
                if value.is_empty() {
                    return Err(SqlError::syntax("zero-length delimited identifier at or near \"\"\"\"").at(position));
                }
                if w.quote_style.is_none() && is_reserved(&value) {
                    let hint = format!("{} is a reserved word; as a name it is written in double quotes.", value.to_uppercase());
                    return Err(self.error().with_hint(hint));
                }
                self.at += 1;
                Ok(Word { value, position })
            }
            _ => Err(self.error()),
        }
    }

    /// A name of up to three words; the first of three, the database, is passed over.
    pub(super) fn name(&mut self) -> SqlResult<Name> {
        let first = self.word()?;
        let position = first.position;
        let mut parts = vec![first.value];
        while parts.len() < 3 && self.accept_token(&Token::Period) {
            // A word after a dot may be a reserved one.
            parts.push(self.column_label()?.value);
        }
        let name = parts.pop().unwrap_or_default();
        Ok(Name { schema: parts.pop(), name, position })
    }

    /// A word, reserved or not.
    pub(super) fn column_label(&mut self) -> SqlResult<Word> {
        let position = self.position();
        match self.peek(0) {
            Some(Token::Word(w)) if !w.value.is_empty() => {
                self.at += 1;
                let value = if w.quote_style.is_some() { w.value.clone() } else { w.value.to_ascii_lowercase() };
                Ok(Word { value, position })
            }
            _ => Err(self.error()),
        }
    }

    /// `(a, b, …)`.
    pub(super) fn word_list(&mut self) -> SqlResult<Vec<Word>> {
        self.expect_token(&Token::LParen)?;
        let words = self.comma_separated(Tokens::word)?;
        self.expect_token(&Token::RParen)?;
        Ok(words)
    }

    /// One or more of something with commas between.
    pub(super) fn comma_separated<T>(&mut self, mut one: impl FnMut(&mut Self) -> SqlResult<T>) -> SqlResult<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.accept_token(&Token::Comma) {
            all.push(one(self)?);
        }
        Ok(all)
    }

    /// A string literal of any of Postgres's kinds.
    pub(super) fn string(&mut self) -> SqlResult<String> {
        let value = match self.peek(0) {
            Some(Token::SingleQuotedString(s) | Token::EscapedStringLiteral(s) | Token::UnicodeStringLiteral(s)) => s.clone(),
            Some(Token::DollarQuotedString(s)) => s.value.clone(),
            _ => return Err(self.error()),
        };
        self.at += 1;
        Ok(value)
    }

    /// A whole number, perhaps with a sign.
    pub(super) fn integer(&mut self) -> SqlResult<i64> {
        let negative = self.accept_token(&Token::Minus);
        if !negative {
            self.accept_token(&Token::Plus);
        }
        match self.peek(0) {
            Some(Token::Number(digits, _)) => {
                let number: i64 = digits.parse().map_err(|_| self.error())?;
                self.at += 1;
                Ok(if negative { -number } else { number })
            }
            _ => Err(self.error()),
        }
    }

    /// Whatever `sqlparser` reads from here.
    pub(super) fn sql<T>(&mut self, read: impl FnOnce(&mut Parser) -> Result<T, ParserError>) -> SqlResult<T> {
        let dialect = PostgreSqlDialect {};
        let tokens = self.all[self.at..self.end].to_vec();
        let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
        let result = read(&mut parser);
        let consumed = parser.index().min(self.end - self.at);
        match result {
            Ok(value) => {
                self.at += consumed;
                Ok(value)
            }
            Err(error) => Err(self.parser_error(error, self.at + consumed.saturating_sub(1))),
        }
    }

    fn parser_error(&self, error: ParserError, last: usize) -> SqlError {
        // Where `sqlparser` finds the end of what it was given, that may be the middle of the statement.
        let end = Tokens { at: self.end, ..self.clone() }.position();
        let fallback = self.all.get(last.min(self.end)).map_or(end, |t| t.span.start.column as usize);
        let at_end = format!("{error}").contains("found: EOF");
        let place = if at_end { end } else { fallback };
        let error = if at_end { strip_place(error) } else { error };
        errors::parser_error(error, place, |place| {
            self.all.iter().find(|t| t.span.start.column as usize == place).map(|t| self.token_text(t))
        })
    }

    /// A query up to the end of these tokens, which must be all of it.
    pub(super) fn whole_query(&mut self) -> SqlResult<Box<Query>> {
        let query = self.sql(|p| p.parse_query())?;
        self.end()?;
        self.refuse_reserved_relations(query.as_ref())?;
        Ok(query)
    }

    /// Refuses relations named by a reserved word, which `sqlparser` lets pass: `FROM where`.
    pub(super) fn refuse_reserved_relations<V: Visit>(&self, part: &V) -> SqlResult<()> {
        let found = visit_relations(part, |name| match name.0.first().and_then(|part| part.as_ident()) {
            Some(first) if first.quote_style.is_none() && is_reserved(&first.value) => {
                ControlFlow::Break(first.span.start.column as usize)
            }
            _ => ControlFlow::Continue(()),
        });
        match found {
            ControlFlow::Break(place) if place > 0 => {
                let token = self.all.iter().find(|t| t.span.start.column as usize == place);
                Err(errors::near(token.map(|t| self.token_text(t)), place))
            }
            _ => Ok(()),
        }
    }

    /// Splits off the tokens up to the first place, outside parentheses, where `stop` holds.
    pub(super) fn split_before(&mut self, stop: impl Fn(&Tokens<'a>) -> bool) -> Tokens<'a> {
        let mut depth = 0usize;
        let mut probe = self.clone();
        while let Some(token) = probe.peek(0) {
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ if depth == 0 && stop(&probe) => break,
                _ => {}
            }
            probe.at += 1;
        }
        let before = Tokens { end: probe.at, ..self.clone() };
        self.at = probe.at;
        before
    }

    /// What stands in the parentheses that start here.
    pub(super) fn parenthesized(&mut self) -> SqlResult<Tokens<'a>> {
        self.expect_token(&Token::LParen)?;
        let mut depth = 0usize;
        let start = self.at;
        while let Some(token) = self.peek(0) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => {
                    let inside = Tokens { at: start, end: self.at, ..self.clone() };
                    self.at += 1;
                    return Ok(inside);
                }
                Token::RParen => depth -= 1,
                _ => {}
            }
            self.at += 1;
        }
        Err(self.error())
    }
}

fn strip_place(error: ParserError) -> ParserError {
    match error {
        ParserError::ParserError(message) => {
            ParserError::ParserError(message.rsplit_once(" at Line: ").map_or(message.clone(), |(head, _)| head.to_string()))
        }
        other => other,
    }
}

fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// An identifier of `sqlparser`, folded as ours.
pub(crate) fn fold(ident: &Ident) -> Word {
    let value = if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() };
    Word { value, position: ident.span.start.column as usize }
}
