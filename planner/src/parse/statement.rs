//! Which statement it is, by its first words.

use super::tokens::Tokens;
use super::{access, copy, create, cursor, objects, settings};
use crate::rewrite;
use crate::statement::{Explain, ExplainStage, Statement};
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::{SqlError, SqlResult};

/// First words of statements that Postgres has and this server has not, with what to do instead.
const UNSUPPORTED: [(&str, &str); 22] = [
    ("analyze", "Statistics are kept without it."),
    ("call", "Use SELECT with a function."),
    ("checkpoint", "Checkpoints are made every second without it."),
    ("cluster", "Rows need no clustering here."),
    ("do", "Send the statements one by one."),
    ("import", "Create the relations with CREATE SOURCE or CREATE TABLE."),
    ("load", "Nothing can be loaded into the server."),
    ("lock", "Statements see one consistent moment without locks."),
    ("merge", "Use INSERT, UPDATE and DELETE."),
    ("reindex", "There are no indexes."),
    ("security", "There are no security labels."),
    ("vacuum", "Storage is cleaned up without it."),
    ("use", "There is one database for each server."),
    ("kill", "Use a cancel request, or CANCEL JOB for a job."),
    ("cache", "Create a materialized view."),
    ("uncache", "Drop the materialized view."),
    ("attach", "Create sources for outside data."),
    ("detach", "Drop the sources of outside data."),
    ("install", "Nothing can be installed into the server."),
    ("pragma", "Use SET."),
    ("replace", "Use UPDATE, or DELETE and INSERT."),
    ("unload", "Use COPY … TO STDOUT, or CREATE SINK."),
];

/// One statement, up to its end.
pub(super) fn statement(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    if tokens.peek(0) == Some(&Token::LParen) {
        return query(tokens);
    }
    let Some(first) = tokens.peek_keyword() else { return Err(tokens.error()) };
    match first.as_str() {
        "select" | "with" | "values" | "table" => query(tokens),
        "insert" | "update" | "delete" => data_change(tokens),
        "create" => create::create(tokens),
        "drop" => objects::drop(tokens),
        "alter" => objects::alter(tokens),
        "truncate" => objects::truncate(tokens),
        "refresh" => objects::refresh(tokens),
        "comment" => objects::comment(tokens),
        "explain" => explain(tokens),
        "describe" | "desc" => objects::describe(tokens),
        "show" => settings::show(tokens),
        "set" => settings::set(tokens),
        "reset" => settings::reset(tokens),
        "begin" | "start" | "commit" | "end" | "rollback" | "abort" | "savepoint" | "release" => {
            settings::transaction(tokens, &first)
        }
        "declare" => cursor::declare(tokens),
        "fetch" | "move" => cursor::fetch(tokens),
        "close" => cursor::close(tokens),
        "prepare" => cursor::prepare(tokens),
        "execute" => cursor::execute(tokens),
        "deallocate" => cursor::deallocate(tokens),
        "discard" => settings::discard(tokens),
        "listen" | "unlisten" | "notify" => settings::channel(tokens, &first),
        "copy" => copy::copy(tokens),
        "subscribe" => copy::subscribe(tokens).map(Statement::Subscribe),
        "flush" => {
            tokens.expect(&["flush"])?;
            Ok(Statement::Flush)
        }
        "cancel" => objects::cancel(tokens),
        "grant" => access::grant(tokens),
        "revoke" => access::revoke(tokens),
        "reassign" => access::reassign_owned(tokens),
        _ => Err(unknown(tokens, &first)),
    }
}

fn unknown(tokens: &Tokens<'_>, first: &str) -> SqlError {
    match UNSUPPORTED.iter().find(|(word, _)| *word == first) {
        Some((word, hint)) => {
            SqlError::unsupported(format!("{} is not supported", word.to_uppercase())).with_hint(*hint).at(tokens.position())
        }
        None => tokens.error(),
    }
}

fn query(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    if tokens.accept(&["table"]) {
        return table(tokens);
    }
    let position = tokens.position();
    let query = tokens.whole_query()?;
    match *query.body {
        ast::SetExpr::Insert(_) | ast::SetExpr::Update(_) | ast::SetExpr::Delete(_) | ast::SetExpr::Merge(_) => {
            Err(SqlError::unsupported("WITH before INSERT, UPDATE or DELETE is not supported")
                .with_hint("Put the WITH clause into the query that follows INSERT, or use a subquery.")
                .at(position))
        }
        _ => Ok(Statement::Query(query)),
    }
}

/// `TABLE t` is `SELECT * FROM t`.
fn table(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let name = tokens.sql(|p| p.parse_object_name(false))?;
    Ok(Statement::Query(Box::new(select_all(name))))
}

/// `SELECT * FROM name`.
pub(crate) fn select_all(name: ast::ObjectName) -> ast::Query {
    rewrite::query(rewrite::select(vec![rewrite::wildcard()], rewrite::table_factor(name), None))
}

fn data_change(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let position = tokens.position();
    let statement = tokens.sql(|p| p.parse_statement())?;
    tokens.refuse_reserved_relations(&statement)?;
    let refused = |what: &str| Err(SqlError::unsupported(format!("{what} is not supported")).at(position));
    match statement {
        ast::Statement::Insert(insert) => {
            if !matches!(&insert.on, None | Some(ast::OnInsert::OnConflict(_))) {
                return refused("ON DUPLICATE KEY");
            }
            if insert.overwrite || insert.replace_into || insert.ignore || insert.or.is_some() || insert.partitioned.is_some() {
                return refused("this form of INSERT");
            }
            if !insert.assignments.is_empty() || insert.settings.is_some() || insert.format_clause.is_some() {
                return refused("this form of INSERT");
            }
            Ok(Statement::Insert(Box::new(insert)))
        }
        ast::Statement::Update(update) => {
            if update.limit.is_some() || update.or.is_some() {
                return refused("UPDATE with LIMIT or OR");
            }
            Ok(Statement::Update(Box::new(update)))
        }
        ast::Statement::Delete(delete) => {
            if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
                return refused("DELETE with LIMIT, ORDER BY or several tables");
            }
            Ok(Statement::Delete(Box::new(delete)))
        }
        _ => Err(SqlError::syntax("expected INSERT, UPDATE or DELETE").at(position)),
    }
}

fn explain(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["explain"])?;
    let mut explain = Explain {
        statement: Box::new(Statement::Flush),
        text: String::new(),
        stage: None,
        json: false,
        analyze: false,
        verbose: false,
    };
    if tokens.peek(0) == Some(&Token::LParen) && !is_query_in_parentheses(tokens) {
        explain_options(&mut tokens.parenthesized()?, &mut explain)?;
    } else {
        explain.analyze = tokens.accept(&["analyze"]);
        explain.verbose = tokens.accept(&["verbose"]);
    }
    let position = tokens.position();
    let mark = tokens.mark();
    let inner = statement(tokens)?;
    explain.text = tokens.text_since(mark).to_string();
    if !matches!(
        inner,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::CreateMaterializedView(_)
            | Statement::CreateView(_)
            | Statement::CreateSink(_)
            | Statement::CreateTable(_)
            | Statement::Execute { .. }
    ) {
        return Err(SqlError::unsupported(format!("EXPLAIN of {} is not supported", inner.tag())).at(position));
    }
    explain.statement = Box::new(inner);
    Ok(Statement::Explain(explain))
}

fn is_query_in_parentheses(tokens: &Tokens<'_>) -> bool {
    let mut ahead = 0;
    while tokens.peek(ahead) == Some(&Token::LParen) {
        ahead += 1;
    }
    ["select", "with", "values", "table"].iter().any(|word| tokens.is_word(ahead, word))
}

fn explain_options(options: &mut Tokens<'_>, explain: &mut Explain) -> SqlResult<()> {
    loop {
        let position = options.position();
        let word = options.column_label()?;
        match word.value.as_str() {
            "raw" => explain.stage = Some(ExplainStage::Raw),
            "logical" => explain.stage = Some(ExplainStage::Logical),
            "physical" | "streaming" => explain.stage = Some(ExplainStage::Physical),
            "analyze" => explain.analyze = explain_flag(options)?,
            "verbose" => explain.verbose = explain_flag(options)?,
            // What these switch on has nothing to show here, and clients set them by habit.
            "costs" | "settings" | "buffers" | "wal" | "timing" | "summary" => _ = explain_flag(options)?,
            "format" => match options.column_label()?.value.as_str() {
                "text" => explain.json = false,
                "json" => explain.json = true,
                other => {
                    return Err(SqlError::invalid_parameter(format!(
                        "unrecognized value for EXPLAIN option \"format\": \"{other}\""
                    ))
                    .with_hint("Use TEXT or JSON.")
                    .at(position));
                }
            },
            other => {
                let known = ["raw", "logical", "physical", "analyze", "verbose", "format", "costs"];
                return Err(SqlError::syntax(format!("unrecognized EXPLAIN option \"{other}\""))
                    .with_hint(thalweg_catalog::suggest::hint(other, known.iter().copied()))
                    .at(position));
            }
        }
        if !options.accept_token(&Token::Comma) {
            return options.end();
        }
    }
}

fn explain_flag(options: &mut Tokens<'_>) -> SqlResult<bool> {
    if options.is_done() || options.peek(0) == Some(&Token::Comma) {
        return Ok(true);
    }
    let position = options.position();
    let value = match options.next()? {
        Token::Word(w) => w.value.to_ascii_lowercase(),
        Token::Number(n, _) => n.clone(),
        _ => String::new(),
    };
    match value.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(SqlError::syntax("an EXPLAIN option requires a Boolean value").at(position)),
    }
}
