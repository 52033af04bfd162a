//! Functions about the session and its settings.

use super::{Function, as_int, lenient, strict, text_at};
use crate::access::authority::{denied, refused};
use crate::pg_catalog::relation::{Cell, Kind};
use crate::pg_catalog::snapshot::SystemSnapshot;
use crate::wire::connections::Interrupt;
use thalweg_catalog::security::Predefined;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

pub(super) static FUNCTIONS: &[Function] = &[
    strict("version", Kind::Text, |s, _| Ok(version(s).into())),
    strict("current_database", Kind::Name, |s, _| Ok(s.database.as_str().into())),
    strict("current_catalog", Kind::Name, |s, _| Ok(s.database.as_str().into())),
    strict("current_schema", Kind::Name, |s, _| Ok(current_schema(s).into())),
    strict("current_schemas", Kind::NameArray, |s, args| Ok(current_schemas(s, args).into())),
    strict("current_user", Kind::Name, |s, _| Ok(s.user.as_str().into())),
    strict("session_user", Kind::Name, |s, _| Ok(s.session_user.as_str().into())),
    strict("current_role", Kind::Name, |s, _| Ok(s.user.as_str().into())),
    strict("user", Kind::Name, |s, _| Ok(s.user.as_str().into())),
    strict("pg_backend_pid", Kind::Int4, |s, _| Ok(s.process_id.into())),
    strict("pg_my_temp_schema", Kind::Oid, |_, _| Ok(0u32.into())),
    strict("pg_is_other_temp_schema", Kind::Bool, |_, _| Ok(false.into())),
    strict("pg_is_in_recovery", Kind::Bool, |_, _| Ok(false.into())),
    strict("pg_encoding_to_char", Kind::Name, |_, args| Ok(if as_int(args.first()) == Some(6) { "UTF8" } else { "" }.into())),
    strict("pg_char_to_encoding", Kind::Int4, |_, args| {
        let name = text_at(args, 0).unwrap_or_default();
        Ok(if name.eq_ignore_ascii_case("utf8") { 6i32 } else { -1 }.into())
    }),
    strict("pg_client_encoding", Kind::Name, |s, _| Ok(s.settings.get("client_encoding").unwrap_or_default().into())),
    strict("getdatabaseencoding", Kind::Name, |_, _| Ok("UTF8".into())),
    strict("current_setting", Kind::Text, current_setting),
    lenient("set_config", Kind::Text, set_config),
    strict("txid_current", Kind::Int8, |s, _| Ok((s.catalog.version() as i64).into())),
    strict("pg_current_xact_id", Kind::Int8, |s, _| Ok((s.catalog.version() as i64).into())),
    strict("inet_server_addr", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("inet_server_port", Kind::Int4, |_, _| Ok(Cell::Null)),
    strict("inet_client_addr", Kind::Text, |_, _| Ok(Cell::Null)),
    strict("inet_client_port", Kind::Int4, |_, _| Ok(Cell::Null)),
    strict("pg_advisory_lock", Kind::Void, no_advisory_locks),
    strict("pg_advisory_unlock", Kind::Bool, no_advisory_locks),
    // None is held: poolers send it to clean a connection up.
    strict("pg_advisory_unlock_all", Kind::Void, |_, _| Ok("".into())),
    strict("pg_try_advisory_lock", Kind::Bool, no_advisory_locks),
    strict("pg_notify", Kind::Void, |s, args| {
        s.notified.lock().push((text_at(args, 0).unwrap_or_default(), text_at(args, 1).unwrap_or_default()));
        Ok("".into())
    }),
    strict("pg_cancel_backend", Kind::Bool, |s, args| interrupt(s, args, Interrupt::Cancel)),
    strict("pg_terminate_backend", Kind::Bool, |s, args| interrupt(s, args, Interrupt::Terminate)),
    strict("pg_reload_conf", Kind::Bool, reload),
];

/// Settings that clients ask for, which mean nothing here.
const FIXED_SETTINGS: [(&str, &str); 6] = [
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("temp_tablespaces", ""),
    ("jit", "off"),
    ("max_identifier_length", "63"),
    ("block_size", "8192"),
];

/// A lock that everybody gets would be worse than none.
fn no_advisory_locks(_: &SystemSnapshot, _: &[Cell]) -> SqlResult<Cell> {
    Err(SqlError::unsupported("advisory locks are not supported")
        .with_hint("Changes of a table's rows exclude each other by themselves."))
}

fn version(snapshot: &SystemSnapshot) -> String {
    let reported = snapshot.settings.get("server_version").unwrap_or_else(|| "15.0".to_string());
    format!("PostgreSQL {reported} (Thalweg {})", env!("CARGO_PKG_VERSION"))
}

fn current_schema(snapshot: &SystemSnapshot) -> Option<String> {
    snapshot.search_path.iter().find(|schema| snapshot.catalog.has_schema(schema)).cloned()
}

fn current_schemas(snapshot: &SystemSnapshot, args: &[Cell]) -> Vec<String> {
    let implicit = text_at(args, 0).is_some_and(|text| text.starts_with('t'));
    let system = implicit.then(|| "pg_catalog".to_string());
    let path = snapshot.search_path.iter().filter(|schema| snapshot.catalog.has_schema(schema));
    system.into_iter().chain(path.cloned()).collect()
}

fn current_setting(snapshot: &SystemSnapshot, args: &[Cell]) -> SqlResult<Cell> {
    let name = text_at(args, 0).unwrap_or_default();
    let missing_is_fine = text_at(args, 1).is_some_and(|text| text.starts_with('t'));
    let fixed = FIXED_SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string());
    match snapshot.settings.get(&name).or(fixed) {
        Some(value) => Ok(value.into()),
        None if missing_is_fine => Ok(Cell::Null),
        None => Err(SqlError::new(SqlState::UndefinedObject, format!("unrecognized configuration parameter \"{name}\""))),
    }
}

fn set_config(snapshot: &SystemSnapshot, args: &[Cell]) -> SqlResult<Cell> {
    let Some(name) = text_at(args, 0) else {
        return Err(SqlError::invalid_parameter("a setting's name can't be NULL"));
    };
    let local = text_at(args, 2).is_some_and(|text| text.starts_with('t'));
    snapshot.settings.set(&name, &text_at(args, 1).unwrap_or_default(), local).map(Cell::from)
}

/// Connections of another role are for superusers, members of that role and `pg_signal_backend`.
fn check_interrupt(snapshot: &SystemSnapshot, process_id: i32, interrupt: Interrupt) -> SqlResult<()> {
    let (security, role) = (snapshot.security(), snapshot.role);
    let Some(other) = snapshot.activity.iter().find(|one| one.process_id == process_id) else { return Ok(()) };
    let theirs = snapshot.role_named(&other.user);
    let verb = if interrupt == Interrupt::Cancel { "cancel query" } else { "terminate process" };
    if theirs.is_some_and(|theirs| security.is_superuser(theirs)) && !security.is_superuser(role) {
        return Err(refused(format!("must be a superuser to {verb} of a superuser")));
    }
    let may = theirs.is_some_and(|theirs| security.has_privileges_of(role, theirs));
    if may || security.has_predefined(role, Predefined::SignalBackend) {
        return Ok(());
    }
    Err(refused(format!("must be a member of the role whose connection it is, or of pg_signal_backend, to {verb}")))
}

fn interrupt(snapshot: &SystemSnapshot, args: &[Cell], interrupt: Interrupt) -> SqlResult<Cell> {
    let process_id = as_int(args.first()).and_then(|id| i32::try_from(id).ok());
    let found = match (&snapshot.connections, process_id) {
        (Some(connections), Some(process_id)) => {
            check_interrupt(snapshot, process_id, interrupt)?;
            connections.interrupt(process_id, interrupt)
        }
        _ => false,
    };
    Ok(found.into())
}

/// Reads rules and certificate again; whether they could be read. Why not is in the log.
fn reload(snapshot: &SystemSnapshot, _: &[Cell]) -> SqlResult<Cell> {
    if !snapshot.security().is_superuser(snapshot.role) {
        return Err(denied("function", "pg_reload_conf"));
    }
    Ok(snapshot.gate.as_ref().is_some_and(|gate| gate.reload().is_ok()).into())
}
