//! Row policies.

use super::super::tokens::Tokens;
use super::{access, role_name};
use crate::statement::{Access, Name, PolicyClauses, RowSecurityChange, Statement, Word};
use thalweg_catalog::{ObjectKind, SqlError, SqlResult};

/// `ENABLE ROW LEVEL SECURITY` and its like after `ALTER TABLE x`, if it comes next.
pub(crate) fn row_security(tokens: &mut Tokens<'_>, kind: ObjectKind, table: &Name) -> Option<Statement> {
    const FORMS: [(&[&str], RowSecurityChange); 4] = [
        (&["enable"], RowSecurityChange::Enable(true)),
        (&["disable"], RowSecurityChange::Enable(false)),
        (&["force"], RowSecurityChange::Force(true)),
        (&["no", "force"], RowSecurityChange::Force(false)),
    ];
    let (_, change) = FORMS.iter().find(|(words, _)| tokens.accept(&[words, &["row", "level", "security"][..]].concat()))?;
    Some(access(Access::RowSecurity { kind, table: table.clone(), change: *change }))
}

fn head(tokens: &mut Tokens<'_>) -> SqlResult<(Word, Name)> {
    let name = tokens.word()?;
    tokens.expect(&["on"])?;
    Ok((name, tokens.name()?))
}

/// `CREATE POLICY p ON t [AS PERMISSIVE | RESTRICTIVE] FOR SELECT [TO …] USING (…)`.
pub(crate) fn create_policy(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let (name, table) = head(tokens)?;
    let mut permissive = true;
    if tokens.accept(&["as"]) {
        permissive = tokens.accept(&["permissive"]);
        if !permissive {
            tokens.expect(&["restrictive"])?;
        }
    }
    let position = tokens.position();
    let only_reads = || {
        SqlError::unsupported("only policies on reads are supported")
            .with_detail("Without a policy for writes, nobody whom row security is for can write to the table.")
            .with_hint("Write FOR SELECT.")
            .at(position)
    };
    if !tokens.accept(&["for"]) {
        return Err(only_reads());
    }
    if !tokens.accept(&["select"]) {
        return Err(only_reads());
    }
    let (roles, using) = clauses(tokens)?;
    Ok(access(Access::CreatePolicy(PolicyClauses { name, table, permissive, roles, using })))
}

fn clauses(tokens: &mut Tokens<'_>) -> SqlResult<(Option<Vec<crate::statement::RoleName>>, Option<String>)> {
    let roles = if tokens.accept(&["to"]) { Some(tokens.comma_separated(role_name)?) } else { None };
    let using = if tokens.accept(&["using"]) {
        let mut inside = tokens.parenthesized()?;
        let mark = inside.mark();
        inside.sql(|p| p.parse_expr())?;
        inside.end()?;
        Some(inside.text_since(mark).to_string())
    } else {
        None
    };
    if tokens.are_words(&["with", "check"]) {
        return Err(SqlError::syntax("WITH CHECK cannot be applied to SELECT or DELETE").at(tokens.position()));
    }
    Ok((roles, using))
}

/// `ALTER POLICY p ON t [TO …] [USING (…)]`, `ALTER POLICY p ON t RENAME TO q`.
pub(crate) fn alter_policy(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let (name, table) = head(tokens)?;
    if tokens.accept(&["rename", "to"]) {
        return Ok(access(Access::RenamePolicy { name, table, to: tokens.word()? }));
    }
    let (roles, using) = clauses(tokens)?;
    Ok(access(Access::AlterPolicy(PolicyClauses { name, table, permissive: true, roles, using })))
}

/// `DROP POLICY [IF EXISTS] p ON t`.
pub(crate) fn drop_policy(tokens: &mut Tokens<'_>) -> SqlResult<Statement> {
    let if_exists = tokens.accept(&["if", "exists"]);
    let (name, table) = head(tokens)?;
    if !tokens.accept(&["cascade"]) {
        tokens.accept(&["restrict"]);
    }
    Ok(access(Access::DropPolicy { name, table, if_exists }))
}
