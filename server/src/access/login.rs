//! How a connection becomes a session of a role: what the rules ask of it, and what the role allows.

use super::gate::Gate;
use super::rules::{Asked, Method};
use super::verifier::Verifier;
use crate::database::now_us;
use crate::wire::session::{Admission, ConnectionInfo};
use thalweg_catalog::security::{Role, RoleId, Security};
use thalweg_catalog::{Catalog, Privileges, SqlError, SqlResult, SqlState, Subject};

fn no_access(text: String) -> SqlError {
    SqlError::new(SqlState::InvalidAuthorizationSpecification, text)
}

/// The role that a user's name stands for. Until somebody has created a role, every name stands for the one that there is.
pub fn role_of<'a>(security: &'a Security, user: &str) -> Option<&'a Role> {
    let stands_in = || if security.has_roles_of_users() { None } else { security.role(RoleId::BOOTSTRAP) };
    security.find_role(user).or_else(stands_in)
}

/// What the rules ask of a connection.
///
/// # Errors
/// `28000` if it is not let in whatever it proves.
pub fn admission(gate: &Gate, catalog: &Catalog, info: &ConnectionInfo) -> SqlResult<Admission> {
    let security = catalog.security();
    let role = role_of(security, &info.user);
    let is_member = |name: &str| match (role, security.find_role(name)) {
        (Some(role), Some(of)) => security.memberships_of(role.id, false).contains(&of.id),
        _ => false,
    };
    let address = info.peer.map(|peer| peer.ip());
    let asked = Asked { user: &info.user, database: &info.database, address, tls: info.tls.is_some(), is_member: &is_member };
    let rules = gate.rules();
    let rule = rules.find(&asked).ok_or_else(|| no_access(format!("no pg_hba.conf entry for {}", described(info))))?;
    match rule.method {
        Method::Trust => Ok(Admission::Trusted),
        Method::Reject => Err(no_access(format!("pg_hba.conf rejects connection for {}", described(info)))),
        Method::Scram => Ok(Admission::Password(verifier_for(role, info, gate))),
        Method::Certificate => with_certificate(info),
    }
}

fn described(info: &ConnectionInfo) -> String {
    let host = info.peer.map_or_else(|| "[local]".to_string(), |peer| peer.ip().to_canonical().to_string());
    let encryption = if info.tls.is_some() { "SSL encryption" } else { "no encryption" };
    format!("host \"{host}\", user \"{}\", database \"{}\", {encryption}", info.user, info.database)
}

/// The verifier of a role, or one that no password matches.
fn verifier_for(role: Option<&Role>, info: &ConnectionInfo, gate: &Gate) -> Verifier {
    // A name that only stands for a role must not open it with that role's password: it is another user's name.
    let role = role.filter(|role| role.name == info.user);
    let valid = role.filter(|role| role.valid_until_us.is_none_or(|until| now_us() < until));
    let stored = valid.and_then(|role| role.verifier.as_deref()).and_then(Verifier::parse);
    stored.unwrap_or_else(|| Verifier::of_nobody(&info.user, gate.nobody()))
}

fn with_certificate(info: &ConnectionInfo) -> SqlResult<Admission> {
    let name = info.tls.as_ref().and_then(|tls| tls.common_name.as_deref());
    match name {
        None => Err(no_access("connection requires a valid client certificate".into())),
        Some(name) if name == info.user => Ok(Admission::Proven),
        Some(_) => Err(no_access(format!("certificate authentication failed for user \"{}\"", info.user))),
    }
}

/// The role whose session a connection becomes, once it has proved what was asked.
///
/// # Errors
/// `28000` for a role that is not there or may not log in, `42501` without `CONNECT`, `53300` for one connection too many;
/// `connections` is how many the role has with this one.
pub fn session_role<'a>(catalog: &'a Catalog, info: &ConnectionInfo, connections: usize) -> SqlResult<&'a Role> {
    let security = catalog.security();
    let user = &info.user;
    // Who has proved to be somebody is nobody else.
    let found = if info.proven { security.find_role(user) } else { role_of(security, user) };
    let role = found.ok_or_else(|| no_access(format!("role \"{user}\" does not exist")))?;
    if !role.attributes.login {
        return Err(no_access(format!("role \"{user}\" is not permitted to log in")));
    }
    if !security.may(role.id, &Subject::Database, Privileges::CONNECT) {
        let error = super::authority::refused(format!("permission denied for database \"{}\"", info.database));
        return Err(error.with_detail("User does not have CONNECT privilege."));
    }
    let limit = usize::try_from(role.attributes.connection_limit).ok();
    if limit.is_some_and(|limit| connections > limit) && !role.attributes.superuser {
        return Err(SqlError::new(SqlState::TooManyConnections, format!("too many connections for role \"{user}\"")));
    }
    Ok(role)
}
