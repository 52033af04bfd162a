//! `CREATE …`.

use super::tokens::Tokens;
use super::{access, clauses, types};
use crate::statement::{CreateRelation, CreateSink, CreateTableAs, CreateView, OptionPair, RoleName, SinkInput, Statement};
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::object::Emit;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// Kinds of objects that Postgres or another system has and this server has not.
const UNSUPPORTED: [&str; 21] = [
    "index",
    "unique",
    "function",
    "procedure",
    "database",
    "sequence",
    "domain",
    "trigger",
    "extension",
    "connection",
    "cluster",
    "aggregate",
    "model",
    "subscription",
    "publication",
    "server",
    "foreign",
    "rule",
    "cast",
    "collation",
    "language",
];

/// What a user is told who wants something else.
const CREATABLE: &str =
    "Sources, tables, views, materialized views, sinks, types, schemas, roles, policies and secrets can be created.";

/// What a user is told who wants an index.
const NO_INDEXES: &str =
    "A table is looked up by its primary key. For lookups by other columns create a materialized view that groups by them.";

/// `CREATE …`.
pub(super) fn create(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["create"])?;
    let position = tokens.position();
    if tokens.accept(&["or", "replace"]) {
        return Err(SqlError::unsupported("CREATE OR REPLACE is not supported")
            .with_hint("Drop the object and create it again.")
            .at(position));
    }
    let temporary = temporary(tokens);
    for word in ["temporary", "temp", "local", "global", "unlogged", "recursive"] {
        if tokens.is_word(0, word) {
            return Err(SqlError::unsupported(format!("CREATE {} is not supported", word.to_uppercase())).at(position));
        }
    }
    if tokens.accept(&["source"]) {
        return source(tokens).map(Statement::CreateSource);
    }
    if tokens.accept(&["table"]) {
        return table(tokens, temporary);
    }
    if temporary {
        return Err(SqlError::unsupported("only tables can be temporary").at(position));
    }
    if tokens.accept(&["materialized", "view"]) {
        return materialized_view(tokens).map(Statement::CreateMaterializedView);
    }
    if tokens.accept(&["view"]) {
        return view(tokens).map(Statement::CreateView);
    }
    if tokens.accept(&["sink"]) {
        return sink(tokens).map(Statement::CreateSink);
    }
    if tokens.accept(&["type"]) {
        return types::create(tokens);
    }
    if tokens.accept(&["schema"]) {
        return schema(tokens);
    }
    if tokens.accept(&["role"]) || tokens.accept(&["group"]) {
        return access::create_role(tokens, false);
    }
    if tokens.is_word(0, "user") && !tokens.is_word(1, "mapping") {
        tokens.expect(&["user"])?;
        return access::create_role(tokens, true);
    }
    if tokens.accept(&["policy"]) {
        return access::create_policy(tokens);
    }
    if tokens.accept(&["secret"]) {
        return access::create_secret(tokens);
    }
    let Some(word) = tokens.peek_keyword() else { return Err(tokens.error()) };
    let hint = if matches!(word.as_str(), "index" | "unique") { NO_INDEXES } else { CREATABLE };
    if !UNSUPPORTED.contains(&word.as_str()) {
        return Err(tokens.error().with_hint(hint));
    }
    Err(SqlError::unsupported(format!("CREATE {} is not supported", word.to_uppercase())).with_hint(hint).at(position))
}

/// `[LOCAL | GLOBAL] TEMPORARY`, before a table.
fn temporary(tokens: &mut Tokens<'_>) -> bool {
    ["local", "global", ""].iter().any(|scope| {
        ["temporary", "temp"].iter().any(|word| {
            let words: Vec<&str> = [*scope, *word].into_iter().filter(|word| !word.is_empty()).collect();
            tokens.accept(&words)
        })
    })
}

/// `ON COMMIT PRESERVE ROWS`, which temporary tables do anyway.
fn on_commit(tokens: &mut Tokens<'_>, temporary: bool) -> SqlResult<()> {
    let position = tokens.position();
    if !tokens.accept(&["on", "commit"]) || (temporary && tokens.accept(&["preserve", "rows"])) {
        return Ok(());
    }
    let message =
        if temporary { "ON COMMIT DROP and DELETE ROWS are not supported" } else { "only temporary tables have ON COMMIT" };
    Err(SqlError::unsupported(message).with_hint("A temporary table is dropped when its session ends.").at(position))
}

fn if_not_exists(tokens: &mut Tokens<'_>) -> bool {
    tokens.accept(&["if", "not", "exists"])
}

fn source(tokens: &mut Tokens<'_>) -> SqlResult<CreateRelation> {
    let relation = relation(tokens)?;
    if relation.columns.iter().any(|c| c.default.is_some()) {
        return Err(SqlError::unsupported("DEFAULT is not supported in a source")
            .with_hint("Use coalesce() in a view over the source.")
            .at(relation.name.position));
    }
    Ok(relation)
}

fn table(tokens: &mut Tokens<'_>, temporary: bool) -> SqlResult<Statement> {
    let probe = tokens.clone();
    let mut ahead = tokens.clone();
    if let Some(create) = table_as(&mut ahead, temporary)? {
        *tokens = ahead;
        return Ok(Statement::CreateTableAs(create));
    }
    let relation = CreateRelation { temporary, ..relation(tokens)? };
    on_commit(tokens, temporary)?;
    if tokens.is_word(0, "as") {
        return Err(SqlError::unsupported("CREATE TABLE AS with options is not supported").at(tokens.position()));
    }
    if tokens.is_done() && relation.columns.is_empty() && relation.options.is_empty() {
        return Err(SqlError::new(SqlState::InvalidTableDefinition, "a table needs at least one column").at(probe.position()));
    }
    Ok(Statement::CreateTable(relation))
}

/// What follows `CREATE TABLE`, if it is a query's result.
fn table_as(tokens: &mut Tokens<'_>, temporary: bool) -> SqlResult<Option<CreateTableAs>> {
    let if_not_exists = if_not_exists(tokens);
    let name = tokens.name()?;
    // A list of words alone, without types, is one of names for the query's columns.
    let columns = match tokens.peek(0) {
        Some(Token::LParen) => match tokens.word_list() {
            Ok(words) => words,
            Err(_) => return Ok(None),
        },
        _ => vec![],
    };
    on_commit(tokens, temporary)?;
    if !tokens.accept(&["as"]) {
        return Ok(None);
    }
    let query = clauses::embedded_query(tokens)?;
    let with_data = !tokens.accept(&["with", "no", "data"]);
    if with_data {
        tokens.accept(&["with", "data"]);
    }
    Ok(Some(CreateTableAs { name, temporary, if_not_exists, columns, query, with_data }))
}

fn relation(tokens: &mut Tokens<'_>) -> SqlResult<CreateRelation> {
    let if_not_exists = if_not_exists(tokens);
    let name = tokens.name()?;
    let body =
        if tokens.peek(0) == Some(&Token::LParen) { clauses::relation_body(tokens)? } else { clauses::RelationBody::default() };
    if body.columns.iter().filter(|c| c.primary_key).count() + usize::from(body.primary_key.is_some()) > 1 {
        return Err(clauses::multiple_keys().at(name.position));
    }
    Ok(CreateRelation {
        name,
        temporary: false,
        if_not_exists,
        columns: body.columns,
        primary_key: body.primary_key,
        watermark: body.watermark,
        includes: clauses::includes(tokens)?,
        options: clauses::with_options(tokens)?,
        format: clauses::format_clause(tokens)?,
    })
}

fn view(tokens: &mut Tokens<'_>) -> SqlResult<CreateView> {
    let view = view_body(tokens)?;
    if view.emit != Emit::Immediate {
        return Err(SqlError::unsupported("EMIT is not supported in a plain view")
            .with_hint("Use CREATE MATERIALIZED VIEW.")
            .at(view.name.position));
    }
    match view.options.first() {
        Some(option) => {
            Err(SqlError::unsupported(format!("view option \"{}\" is not supported", option.name.value)).at(option.name.position))
        }
        None => Ok(view),
    }
}

fn materialized_view(tokens: &mut Tokens<'_>) -> SqlResult<CreateView> {
    view_body(tokens)
}

fn view_body(tokens: &mut Tokens<'_>) -> SqlResult<CreateView> {
    let if_not_exists = if_not_exists(tokens);
    let name = tokens.name()?;
    let columns = if tokens.peek(0) == Some(&Token::LParen) { tokens.word_list()? } else { vec![] };
    let mut options = clauses::with_options(tokens)?;
    tokens.expect(&["as"])?;
    let query = clauses::embedded_query(tokens)?;
    let mut emit = None;
    loop {
        let position = tokens.position();
        if let Some(found) = clauses::emit(tokens)? {
            if emit.replace(found).is_some() {
                return Err(SqlError::syntax("EMIT is given more than once").at(position));
            }
        } else if tokens.are_words(&["with", "no", "data"]) {
            return Err(SqlError::unsupported("WITH NO DATA is not supported")
                .with_hint("A materialized view always holds its query's result.")
                .at(position));
        } else if !tokens.accept(&["with", "data"]) {
            let more = clauses::with_options(tokens)?;
            if more.is_empty() {
                break;
            }
            merge_options(&mut options, more)?;
        }
    }
    Ok(CreateView { name, if_not_exists, columns, query, emit: emit.unwrap_or_default(), options })
}

fn merge_options(options: &mut Vec<OptionPair>, more: Vec<OptionPair>) -> SqlResult<()> {
    for pair in more {
        if options.iter().any(|known| known.name.value == pair.name.value) {
            return Err(
                SqlError::syntax(format!("option \"{}\" is given more than once", pair.name.value)).at(pair.name.position)
            );
        }
        options.push(pair);
    }
    Ok(())
}

fn sink(tokens: &mut Tokens<'_>) -> SqlResult<CreateSink> {
    let if_not_exists = if_not_exists(tokens);
    let name = tokens.name()?;
    let input = if tokens.accept(&["from"]) {
        SinkInput::Relation(tokens.name()?)
    } else {
        tokens.expect(&["as"])?;
        SinkInput::Query(clauses::embedded_query(tokens)?)
    };
    let emit = clauses::emit(tokens)?.unwrap_or_default();
    let options = clauses::with_options(tokens)?;
    let format = clauses::format_clause(tokens)?;
    Ok(CreateSink { name, if_not_exists, input, emit, options, format })
}

fn schema(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let if_not_exists = if_not_exists(tokens);
    let mut name = if tokens.is_word(0, "authorization") { None } else { Some(tokens.word()?) };
    // A schema may be written with its database, as dbt does.
    if name.is_some() && tokens.accept_token(&Token::Period) {
        name = Some(tokens.word()?);
    }
    let owner = if tokens.accept(&["authorization"]) { Some(access::role_name(tokens)?) } else { None };
    match (name, &owner) {
        (Some(name), _) => Ok(Statement::CreateSchema { name, if_not_exists, owner }),
        (None, Some(RoleName::Named(word))) => Ok(Statement::CreateSchema { name: word.clone(), if_not_exists, owner }),
        _ => Err(tokens.error()),
    }
}
