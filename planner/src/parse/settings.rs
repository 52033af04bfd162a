//! Statements about the session: settings, transactions, channels.

use super::objects;
use super::tokens::Tokens;
use crate::statement::{DiscardTarget, Isolation, SetScope, SetSetting, Show, Statement, TransactionModes};
use datafusion::sql::sqlparser::tokenizer::Token;
use thalweg_catalog::datetime::SessionTimeZone;
use thalweg_catalog::{ObjectKind, SqlError, SqlResult};

/// `SHOW …`.
pub(super) fn show(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["show"])?;
    if tokens.accept(&["create"]) {
        let Some(kind) = objects::kind(tokens) else { return Err(tokens.error()) };
        return Ok(Statement::Show(Show::Create(kind, tokens.name()?)));
    }
    if tokens.accept(&["columns"]) {
        tokens.expect(&["from"])?;
        return Ok(Statement::Show(Show::Columns(tokens.name()?)));
    }
    let whole: [(&[&str], Show); 8] = [
        (&["all"], Show::AllSettings),
        (&["jobs"], Show::Jobs),
        (&["schemas"], Show::Schemas),
        (&["databases"], Show::Databases),
        (&["transaction", "isolation", "level"], Show::Setting("transaction_isolation".into())),
        (&["time", "zone"], Show::Setting("timezone".into())),
        (&["session", "authorization"], Show::Setting("session_authorization".into())),
        (&["names"], Show::Setting("client_encoding".into())),
    ];
    for (words, show) in whole {
        if tokens.accept(words) {
            return Ok(Statement::Show(show));
        }
    }
    let lists: [(&[&str], ObjectKind); 5] = [
        (&["tables"], ObjectKind::Table),
        (&["sources"], ObjectKind::Source),
        (&["materialized", "views"], ObjectKind::MaterializedView),
        (&["views"], ObjectKind::View),
        (&["sinks"], ObjectKind::Sink),
    ];
    for (words, kind) in lists {
        if tokens.accept(words) {
            let schema = if tokens.accept(&["from"]) { Some(tokens.word()?.value) } else { None };
            let like = if tokens.accept(&["like"]) { Some(tokens.string()?) } else { None };
            return Ok(Statement::Show(Show::Objects { kind, schema, like }));
        }
    }
    setting_name(tokens).map(|name| Statement::Show(Show::Setting(name)))
}

/// A setting's name, dotted or not, in lower case.
pub(super) fn setting_name(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    let mut name = tokens.column_label()?.value;
    while tokens.accept_token(&Token::Period) {
        name.push('.');
        name.push_str(&tokens.column_label()?.value);
    }
    Ok(name.to_lowercase())
}

/// `SET …` in all its forms.
pub(super) fn set(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let start = tokens.position();
    tokens.expect(&["set"])?;
    if tokens.accept(&["transaction"]) {
        return transaction_modes(tokens).map(Statement::SetTransaction);
    }
    if tokens.accept(&["session", "characteristics", "as", "transaction"]) {
        return transaction_modes(tokens).map(Statement::SetSessionCharacteristics);
    }
    if tokens.is_word(0, "constraints") {
        return Err(SqlError::unsupported("SET CONSTRAINTS is not supported").at(start));
    }
    let mut scope = SetScope::Session;
    if tokens.is_word(0, "local") && !is_assignment(tokens, 1) {
        tokens.expect(&["local"])?;
        scope = SetScope::Local;
    } else if tokens.is_word(0, "session") && !is_assignment(tokens, 1) && !tokens.is_word(1, "authorization") {
        tokens.expect(&["session"])?;
    }
    let position = tokens.position();
    let setting = |name: &str, values| {
        Ok(Statement::Set(SetSetting { scope, name: Some(name.to_string()), values, reset: false, position }))
    };
    if tokens.accept(&["time", "zone"]) {
        return setting("timezone", time_zone(tokens)?);
    }
    if tokens.accept(&["names"]) {
        let values = if tokens.accept(&["default"]) { None } else { Some(vec![tokens.string()?]) };
        return setting("client_encoding", values);
    }
    if tokens.accept(&["schema"]) {
        return setting("search_path", Some(vec![tokens.string()?]));
    }
    if tokens.accept(&["session", "authorization"]) {
        return setting("session_authorization", named_value(tokens, "default")?);
    }
    if tokens.is_word(0, "role") && !is_assignment(tokens, 1) {
        tokens.expect(&["role"])?;
        return setting("role", named_value(tokens, "none")?);
    }
    let name = setting_name(tokens)?;
    let values = assigned_values(tokens)?;
    setting(&name, values)
}

fn is_assignment(tokens: &Tokens<'_>, ahead: usize) -> bool {
    tokens.peek(ahead) == Some(&Token::Eq) || tokens.is_word(ahead, "to")
}

fn named_value(tokens: &mut Tokens<'_>, none: &str) -> SqlResult<Option<Vec<String>>> {
    if tokens.accept(&[none]) {
        return Ok(None);
    }
    match tokens.peek(0) {
        Some(Token::Word(_)) => Ok(Some(vec![tokens.column_label()?.value])),
        _ => Ok(Some(vec![tokens.string()?])),
    }
}

fn time_zone(tokens: &mut Tokens<'_>) -> SqlResult<Option<Vec<String>>> {
    if tokens.accept(&["local"]) || tokens.accept(&["default"]) {
        return Ok(None);
    }
    if tokens.accept(&["interval"]) {
        let text = tokens.string()?;
        if tokens.accept(&["hour", "to"]) {
            tokens.expect(&["minute"])?;
        }
        // An interval counts eastwards, a zone that is written in digits westwards.
        return Ok(Some(vec![SessionTimeZone::parse(&text).map_or(text, |zone| zone.name())]));
    }
    setting_value(tokens).map(|value| Some(vec![value]))
}

/// `{TO | =} value, …`, none for `DEFAULT`.
pub(super) fn assigned_values(tokens: &mut Tokens<'_>) -> SqlResult<Option<Vec<String>>> {
    if !tokens.accept_token(&Token::Eq) {
        tokens.expect(&["to"])?;
    }
    if tokens.accept(&["default"]) {
        return Ok(None);
    }
    tokens.comma_separated(setting_value).map(Some)
}

fn setting_value(tokens: &mut Tokens<'_>) -> SqlResult<String> {
    match tokens.peek(0) {
        Some(Token::Word(_)) => Ok(tokens.column_label()?.value),
        Some(Token::Number(..) | Token::Minus | Token::Plus) => {
            let mark = tokens.mark();
            if !matches!(tokens.next()?, Token::Number(..)) && !matches!(tokens.next()?, Token::Number(..)) {
                return Err(tokens.error());
            }
            Ok(tokens.text_since(mark).replace([' ', '+'], ""))
        }
        _ => tokens.string(),
    }
}

/// `RESET x`, `RESET ALL`.
pub(super) fn reset(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["reset"])?;
    let position = tokens.position();
    let name = if tokens.accept(&["all"]) {
        None
    } else if tokens.accept(&["time", "zone"]) {
        Some("timezone".to_string())
    } else if tokens.accept(&["session", "authorization"]) {
        Some("session_authorization".to_string())
    } else if tokens.accept(&["transaction", "isolation", "level"]) {
        Some("transaction_isolation".to_string())
    } else {
        Some(setting_name(tokens)?)
    };
    Ok(Statement::Set(SetSetting { scope: SetScope::Session, name, values: None, reset: true, position }))
}

/// `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT` and their like.
pub(super) fn transaction(tokens: &mut Tokens<'_>, first: &str) -> SqlResult<Statement> {
    tokens.next()?;
    match first {
        "begin" => {
            optional_work(tokens);
            Ok(Statement::Begin { modes: transaction_modes_or_none(tokens)?, start: false })
        }
        "start" => {
            tokens.expect(&["transaction"])?;
            Ok(Statement::Begin { modes: transaction_modes_or_none(tokens)?, start: true })
        }
        "commit" | "end" => {
            refuse_prepared(tokens, "COMMIT")?;
            optional_work(tokens);
            Ok(Statement::Commit { chain: chain(tokens)? })
        }
        "savepoint" => Ok(Statement::Savepoint(tokens.word()?.value)),
        "release" => {
            tokens.accept(&["savepoint"]);
            Ok(Statement::ReleaseSavepoint(tokens.word()?.value))
        }
        _ => {
            refuse_prepared(tokens, "ROLLBACK")?;
            optional_work(tokens);
            if first == "rollback" && tokens.accept(&["to"]) {
                tokens.accept(&["savepoint"]);
                return Ok(Statement::RollbackTo(tokens.word()?.value));
            }
            Ok(Statement::Rollback { chain: chain(tokens)? })
        }
    }
}

fn optional_work(tokens: &mut Tokens<'_>) {
    if !tokens.accept(&["work"]) {
        tokens.accept(&["transaction"]);
    }
}

fn refuse_prepared(tokens: &Tokens<'_>, verb: &str) -> SqlResult<()> {
    if tokens.is_word(0, "prepared") {
        return Err(SqlError::unsupported(format!("{verb} PREPARED is not supported"))
            .with_hint("There are no two-phase transactions.")
            .at(tokens.position()));
    }
    Ok(())
}

fn chain(tokens: &mut Tokens<'_>) -> SqlResult<bool> {
    if !tokens.accept(&["and"]) {
        return Ok(false);
    }
    let no = tokens.accept(&["no"]);
    tokens.expect(&["chain"])?;
    Ok(!no)
}

fn transaction_modes_or_none(tokens: &mut Tokens<'_>) -> SqlResult<TransactionModes> {
    if tokens.is_done() { Ok(TransactionModes::default()) } else { transaction_modes(tokens) }
}

fn transaction_modes(tokens: &mut Tokens<'_>) -> SqlResult<TransactionModes> {
    let mut modes = TransactionModes::default();
    loop {
        if tokens.accept(&["isolation", "level"]) {
            modes.isolation = Some(isolation(tokens)?);
        } else if tokens.accept(&["read", "only"]) {
            modes.read_only = Some(true);
        } else if tokens.accept(&["read", "write"]) {
            modes.read_only = Some(false);
        } else if tokens.accept(&["deferrable"]) {
            modes.deferrable = Some(true);
        } else if tokens.accept(&["not", "deferrable"]) {
            modes.deferrable = Some(false);
        } else {
            return Err(tokens.error());
        }
        // Commas between modes may be left out.
        if !tokens.accept_token(&Token::Comma) && tokens.is_done() {
            return Ok(modes);
        }
    }
}

fn isolation(tokens: &mut Tokens<'_>) -> SqlResult<Isolation> {
    if tokens.accept(&["read", "uncommitted"]) {
        Ok(Isolation::ReadUncommitted)
    } else if tokens.accept(&["read", "committed"]) {
        Ok(Isolation::ReadCommitted)
    } else if tokens.accept(&["repeatable", "read"]) {
        Ok(Isolation::RepeatableRead)
    } else if tokens.accept(&["serializable"]) {
        Ok(Isolation::Serializable)
    } else {
        Err(tokens.error())
    }
}

/// `DISCARD …`.
pub(super) fn discard(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    tokens.expect(&["discard"])?;
    let target = match tokens.peek_keyword().as_deref() {
        Some("all") => DiscardTarget::All,
        Some("plans") => DiscardTarget::Plans,
        Some("sequences") => DiscardTarget::Sequences,
        Some("temp" | "temporary") => DiscardTarget::Temporary,
        _ => return Err(tokens.error()),
    };
    tokens.next()?;
    Ok(Statement::Discard(target))
}

/// `LISTEN`, `UNLISTEN`, `NOTIFY`.
pub(super) fn channel(tokens: &mut Tokens<'_>, first: &str) -> SqlResult<Statement> {
    tokens.next()?;
    if first == "unlisten" && tokens.accept_token(&Token::Mul) {
        return Ok(Statement::Unlisten(None));
    }
    let channel = tokens.word()?.value;
    Ok(match first {
        "listen" => Statement::Listen(channel),
        "unlisten" => Statement::Unlisten(Some(channel)),
        _ => {
            let payload = if tokens.accept_token(&Token::Comma) { tokens.string()? } else { String::new() };
            Statement::Notify { channel, payload }
        }
    })
}
