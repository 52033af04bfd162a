//! Clauses that several statements share: columns, `WITH (…)`, `INCLUDE`, `FORMAT … ENCODE …`, `EMIT`.

use super::tokens::Tokens;
use crate::statement::{ColumnDefinition, EmbeddedQuery, FormatClause, IncludeClause, OptionPair, WatermarkClause, Word};
use datafusion::sql::sqlparser::ast::ColumnOption;
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::object::{Emit, Encode, MessagePart};
use thalweg_catalog::options::secret_reference;
use thalweg_catalog::{SqlError, SqlResult, SqlState, suggest};

/// What stands between the parentheses of `CREATE SOURCE` and `CREATE TABLE`.
#[derive(Default)]
pub(super) struct RelationBody {
    pub(super) columns: Vec<ColumnDefinition>,
    pub(super) primary_key: Option<Vec<Word>>,
    pub(super) watermark: Option<WatermarkClause>,
}

/// `(column, …, PRIMARY KEY (…), WATERMARK FOR …)`.
pub(super) fn relation_body(tokens: &mut Tokens<'_>) -> SqlResult<RelationBody> {
    let mut body = RelationBody::default();
    tokens.expect_token(&Token::LParen)?;
    if tokens.accept_token(&Token::RParen) {
        return Ok(body);
    }
    loop {
        relation_item(tokens, &mut body)?;
        if !tokens.accept_token(&Token::Comma) {
            break;
        }
    }
    tokens.expect_token(&Token::RParen)?;
    Ok(body)
}

fn relation_item(tokens: &mut Tokens<'_>, body: &mut RelationBody) -> SqlResult<()> {
    let position = tokens.position();
    if tokens.accept(&["watermark", "for"]) {
        if body.watermark.is_some() {
            return Err(SqlError::new(SqlState::InvalidTableDefinition, "multiple watermarks are not allowed").at(position));
        }
        let column = tokens.word()?;
        tokens.expect(&["as"])?;
        let expr_position = tokens.position();
        let expr = tokens.sql(|p| p.parse_expr())?;
        body.watermark = Some(WatermarkClause { column, expr, expr_position });
        return Ok(());
    }
    let constraint = tokens.accept(&["constraint"]);
    if constraint {
        tokens.word()?;
    }
    if tokens.are_words(&["primary", "key"]) {
        tokens.expect(&["primary", "key"])?;
        if body.primary_key.is_some() {
            return Err(multiple_keys().at(position));
        }
        body.primary_key = Some(tokens.word_list()?);
        return Ok(());
    }
    for (word, what) in
        [("unique", "UNIQUE"), ("foreign", "FOREIGN KEY"), ("check", "CHECK"), ("exclude", "EXCLUDE"), ("like", "LIKE")]
    {
        if tokens.is_word(0, word) && (constraint || !matches!(tokens.peek(1), Some(Token::Word(_))) || tokens.is_word(1, "key"))
        {
            return Err(unsupported_constraint(what).at(tokens.position()));
        }
    }
    if constraint {
        return Err(tokens.error());
    }
    body.columns.push(column_definition(tokens)?);
    Ok(())
}

pub(super) fn multiple_keys() -> SqlError {
    SqlError::new(SqlState::InvalidTableDefinition, "multiple primary keys are not allowed")
}

fn unsupported_constraint(what: &str) -> SqlError {
    SqlError::unsupported(format!("{what} constraints are not supported"))
        .with_hint("Only NOT NULL, DEFAULT and PRIMARY KEY can be declared.")
}

fn column_definition(tokens: &mut Tokens<'_>) -> SqlResult<ColumnDefinition> {
    let probe = tokens.clone();
    let name = tokens.word()?;
    let type_position = tokens.position();
    let mark = tokens.mark();
    let mut read = probe;
    let definition = read.sql(|p| p.parse_column_def())?;
    let mut column = ColumnDefinition {
        name,
        data_type: definition.data_type,
        type_position,
        not_null: false,
        default: None,
        primary_key: false,
    };
    for option in definition.options {
        let what = match option.option {
            ColumnOption::Null => continue,
            ColumnOption::NotNull => {
                column.not_null = true;
                continue;
            }
            ColumnOption::PrimaryKey(_) => {
                column.primary_key = true;
                continue;
            }
            ColumnOption::Default(expr) => {
                let text = expr.to_string();
                column.default = Some((expr, text));
                continue;
            }
            ColumnOption::Unique(_) => "UNIQUE",
            ColumnOption::ForeignKey(_) => "FOREIGN KEY",
            ColumnOption::Check(_) => "CHECK",
            ColumnOption::Generated { .. } => "GENERATED",
            ColumnOption::Collation(_) => "COLLATE",
            _ => "such column",
        };
        return Err(unsupported_constraint(what).at(type_position));
    }
    debug_assert!(read.mark() > mark);
    *tokens = read;
    Ok(column)
}

/// `WITH (name = 'value', …)`, if it comes next.
pub(super) fn with_options(tokens: &mut Tokens<'_>) -> SqlResult<Vec<OptionPair>> {
    if tokens.is_word(0, "with") && tokens.peek(1) == Some(&Token::LParen) {
        tokens.expect(&["with"])?;
        option_list(tokens)
    } else {
        Ok(vec![])
    }
}

/// `(name = 'value', …)`.
pub(super) fn option_list(tokens: &mut Tokens<'_>) -> SqlResult<Vec<OptionPair>> {
    let mut pairs: Vec<OptionPair> = vec![];
    tokens.expect_token(&Token::LParen)?;
    if tokens.accept_token(&Token::RParen) {
        return Ok(pairs);
    }
    loop {
        let name = option_name(tokens)?;
        if !tokens.accept_token(&Token::Eq) {
            tokens.expect_token(&Token::RArrow)?;
        }
        if pairs.iter().any(|pair| pair.name.value == name.value) {
            return Err(SqlError::syntax(format!("option \"{}\" is given more than once", name.value)).at(name.position));
        }
        let value = option_value(tokens)?;
        pairs.push(OptionPair { name, value });
        if !tokens.accept_token(&Token::Comma) {
            break;
        }
    }
    tokens.expect_token(&Token::RParen)?;
    Ok(pairs)
}

/// A dotted name such as `properties.bootstrap.server`, kept whole.
fn option_name(tokens: &mut Tokens<'_>) -> SqlResult<Word> {
    let mut name = match tokens.peek(0) {
        Some(Token::SingleQuotedString(_)) => {
            let position = tokens.position();
            Word { value: tokens.string()?, position }
        }
        _ => tokens.column_label()?,
    };
    while tokens.accept_token(&Token::Period) {
        name.value.push('.');
        name.value.push_str(&tokens.column_label()?.value);
    }
    Ok(name)
}

fn option_value(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    if tokens.is_word(0, "secret") && matches!(tokens.peek(1), Some(Token::Word(_))) {
        tokens.next()?;
        return tokens.word().map(|name| secret_reference(&name.value));
    }
    match tokens.peek(0) {
        Some(Token::Word(w)) if w.quote_style.is_none() => {
            let value = w.value.clone();
            tokens.next()?;
            Ok(value)
        }
        Some(Token::Number(..) | Token::Minus | Token::Plus) => {
            let mark = tokens.mark();
            if !matches!(tokens.peek(0), Some(Token::Number(..))) {
                tokens.next()?;
            }
            match tokens.next()? {
                Token::Number(..) => Ok(tokens.text_since(mark).replace(' ', "")),
                _ => Err(tokens.error()),
            }
        }
        _ => tokens.string(),
    }
}

/// `INCLUDE part [AS name]`, as many as come.
pub(super) fn includes(tokens: &mut Tokens<'_>) -> SqlResult<Vec<IncludeClause>> {
    const PARTS: [(&str, MessagePart); 5] = [
        ("key", MessagePart::Key),
        ("partition", MessagePart::Partition),
        ("offset", MessagePart::Offset),
        ("timestamp", MessagePart::Timestamp),
        ("headers", MessagePart::Headers),
    ];
    let mut found = vec![];
    loop {
        let position = tokens.position();
        if !tokens.accept(&["include"]) {
            return Ok(found);
        }
        let word = tokens.column_label()?;
        let Some((_, part)) = PARTS.iter().find(|(name, _)| *name == word.value) else {
            return Err(SqlError::syntax(format!("there is nothing like \"{}\" to include from a message", word.value))
                .with_hint(suggest::hint(&word.value, PARTS.iter().map(|(name, _)| *name)))
                .at(word.position));
        };
        let name = if tokens.accept(&["as"]) { Some(tokens.word()?) } else { None };
        found.push(IncludeClause { part: *part, name, position });
    }
}

/// `FORMAT PLAIN ENCODE encode [(…)]`, if it comes next.
pub(super) fn format_clause(tokens: &mut Tokens<'_>) -> SqlResult<Option<FormatClause>> {
    const ENCODES: [(&str, Encode); 4] =
        [("json", Encode::Json), ("csv", Encode::Csv), ("bytes", Encode::Bytes), ("parquet", Encode::Parquet)];
    let position = tokens.position();
    if !tokens.accept(&["format"]) {
        return Ok(None);
    }
    let format = tokens.column_label()?;
    if format.value != "plain" {
        return Err(SqlError::unsupported(format!("FORMAT {} is not supported", format.value.to_uppercase()))
            .with_hint("Use FORMAT PLAIN.")
            .at(format.position));
    }
    tokens.expect(&["encode"])?;
    let word = tokens.column_label()?;
    let Some((_, encode)) = ENCODES.iter().find(|(name, _)| *name == word.value) else {
        return Err(SqlError::unsupported(format!("ENCODE {} is not supported", word.value.to_uppercase()))
            .with_hint(suggest::hint(&word.value, ENCODES.iter().map(|(name, _)| *name)))
            .at(word.position));
    };
    let options = if tokens.peek(0) == Some(&Token::LParen) { option_list(tokens)? } else { vec![] };
    Ok(Some(FormatClause { encode: *encode, options, position }))
}

/// `EMIT ON WINDOW CLOSE`, if it comes next.
pub(super) fn emit(tokens: &mut Tokens<'_>) -> SqlResult<Option<Emit>> {
    if !tokens.accept(&["emit"]) {
        return Ok(None);
    }
    if tokens.accept(&["immediately"]) {
        return Ok(Some(Emit::Immediate));
    }
    tokens.expect(&["on", "window", "close"])?;
    Ok(Some(Emit::OnWindowClose))
}

/// A query up to where the clauses of the statement around it begin.
pub(super) fn embedded_query(tokens: &mut Tokens<'_>) -> SqlResult<EmbeddedQuery> {
    let mut inner = tokens.split_before(|t| {
        (t.is_word(0, "with") && t.peek(1) == Some(&Token::LParen))
            || t.are_words(&["with", "no", "data"])
            || t.are_words(&["with", "data"])
            || t.are_words(&["emit", "on"])
            || t.are_words(&["emit", "immediately"])
            || t.are_words(&["format", "plain"])
    });
    query_of(&mut inner)
}

/// A query that is all of these tokens.
pub(super) fn query_of(tokens: &mut Tokens<'_>) -> SqlResult<EmbeddedQuery> {
    let mark = tokens.mark();
    if tokens.is_word(0, "table") {
        return match super::statement::statement(tokens)? {
            crate::Statement::Query(query) => Ok(EmbeddedQuery { query, text: tokens.text_since(mark).to_string() }),
            _ => Err(tokens.error()),
        };
    }
    let query = tokens.whole_query()?;
    Ok(EmbeddedQuery { query, text: tokens.text_since(mark).to_string() })
}
