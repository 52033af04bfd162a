//! Clauses that DataFusion would read and ignore, or that are Postgres's and not there.

use crate::errors::span_position;
use datafusion::sql::sqlparser::ast::{self, Query, Select, SetExpr, Spanned, TableFactor};
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// Refuses what a query can't have; turns `FETCH FIRST n ROWS ONLY` into `LIMIT n`.
pub(super) fn check_query(query: &mut Query) -> SqlResult<()> {
    let position = span_position(query.span()).unwrap_or(1);
    let refuse =
        |what: &str, hint: &str| Err(SqlError::unsupported(format!("{what} is not supported")).with_hint(hint).at(position));
    if let Some(lock) = query.locks.first() {
        return refuse(&format!("FOR {}", lock.lock_type), "Statements see one consistent moment without locks.");
    }
    if query.for_clause.is_some() || query.settings.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty()
    {
        return refuse("this clause after a query", "Remove it.");
    }
    if let Some(fetch) = query.fetch.take() {
        if fetch.with_ties || fetch.percent {
            return refuse("FETCH FIRST … WITH TIES or PERCENT", "Use rank() in a subquery.");
        }
        let limit = Some(fetch.quantity.unwrap_or_else(|| super::number(1)));
        query.limit_clause = match query.limit_clause.take() {
            Some(ast::LimitClause::LimitOffset { limit: None, offset, limit_by }) => {
                Some(ast::LimitClause::LimitOffset { limit, offset, limit_by })
            }
            None => Some(ast::LimitClause::LimitOffset { limit, offset: None, limit_by: vec![] }),
            Some(_) => return Err(SqlError::syntax("multiple LIMIT clauses not allowed").at(position)),
        };
    }
    match &query.limit_clause {
        Some(ast::LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty() => {
            return refuse("LIMIT … BY", "Use row_number() in a subquery.");
        }
        Some(ast::LimitClause::OffsetCommaLimit { .. }) => {
            return Err(SqlError::syntax("LIMIT #,# syntax is not supported")
                .with_hint("Use separate LIMIT and OFFSET clauses.")
                .at(position));
        }
        _ => {}
    }
    check_body(&query.body)
}

fn check_body(body: &SetExpr) -> SqlResult<()> {
    match body {
        SetExpr::Select(select) => check_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            check_body(left)?;
            check_body(right)
        }
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) | SetExpr::Merge(statement) => {
            Err(SqlError::unsupported("a data change inside a query is not supported")
                .with_hint("Run it as a statement of its own.")
                .at(span_position(statement.span()).unwrap_or(1)))
        }
        SetExpr::Query(_) | SetExpr::Values(_) | SetExpr::Table(_) => Ok(()),
    }
}

fn check_select(select: &Select) -> SqlResult<()> {
    let has_modifiers = match &select.group_by {
        ast::GroupByExpr::Expressions(_, modifiers) | ast::GroupByExpr::All(modifiers) => !modifiers.is_empty(),
    };
    let found = [
        (select.into.is_some(), "SELECT INTO", "Use CREATE MATERIALIZED VIEW."),
        (select.top.is_some(), "TOP", "Use LIMIT."),
        (select.prewhere.is_some(), "PREWHERE", "Use WHERE."),
        (!select.connect_by.is_empty(), "CONNECT BY", "Use WITH RECURSIVE."),
        (!select.lateral_views.is_empty(), "LATERAL VIEW", "Use unnest()."),
        (!select.cluster_by.is_empty(), "CLUSTER BY", "Use ORDER BY."),
        (!select.distribute_by.is_empty(), "DISTRIBUTE BY", "Remove it."),
        (!select.sort_by.is_empty(), "SORT BY", "Use ORDER BY."),
        (select.value_table_mode.is_some(), "SELECT AS", "Use row()."),
        (select.select_modifiers.is_some(), "a SELECT modifier", "Remove it."),
        (has_modifiers, "GROUP BY … WITH", "Use GROUPING SETS."),
    ];
    match found.iter().find(|(found, ..)| *found) {
        Some((_, what, hint)) => Err(SqlError::unsupported(format!("{what} is not supported"))
            .with_hint(*hint)
            .at(span_position(select.span()).unwrap_or(1))),
        None => check_names(select),
    }
}

/// Refuses two relations in `FROM` of one name, before anything is looked up in them. Tables of two schemas may have one.
fn check_names(select: &Select) -> SqlResult<()> {
    let factors =
        select.from.iter().flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation)));
    let mut seen: Vec<(String, Option<String>)> = vec![];
    for factor in factors {
        let (name, written) = match factor {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                (crate::parse_fold(&alias.name).value, None)
            }
            TableFactor::Table { name, args: None, .. } => {
                let Some(last) = name.0.last().and_then(|part| part.as_ident()) else { continue };
                (crate::parse_fold(last).value, Some(name.to_string().to_lowercase()))
            }
            _ => continue,
        };
        let is_same =
            |other: &(String, Option<String>)| other.0 == name && (other.1.is_none() || written.is_none() || other.1 == written);
        if seen.iter().any(is_same) {
            let message = format!("table name \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DuplicateAlias, message).with_hint("Give one of them another name with AS."));
        }
        seen.push((name, written));
    }
    Ok(())
}

/// Refuses what a relation in `FROM` can't have.
pub(super) fn check_table_factor(factor: &TableFactor) -> SqlResult<()> {
    let (what, hint) = match factor {
        TableFactor::Table { version: Some(_), .. } => {
            ("a version of a table (FOR SYSTEM_TIME AS OF)", "Join with the table; the result follows its changes.")
        }
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
            ("TABLESAMPLE", "Filter with a hash of a column, such as mod(id, 100) = 0.")
        }
        TableFactor::Table { with_ordinality: true, .. } | TableFactor::UNNEST { with_ordinality: true, .. } => {
            ("WITH ORDINALITY", "Use row_number() over the rows.")
        }
        TableFactor::UNNEST { with_offset: true, .. } => ("UNNEST … WITH OFFSET", "Use row_number() over the rows."),
        TableFactor::Table { with_hints, index_hints, partitions, .. }
            if !with_hints.is_empty() || !index_hints.is_empty() || !partitions.is_empty() =>
        {
            ("a hint or partition of a table", "Remove it.")
        }
        TableFactor::Table { json_path: Some(_), .. } => ("a path into a table", "Use operators such as -> in the select list."),
        TableFactor::MatchRecognize { .. } => ("MATCH_RECOGNIZE", "Patterns can't be matched yet."),
        TableFactor::Pivot { .. } | TableFactor::Unpivot { .. } => ("PIVOT", "Use aggregates with FILTER."),
        TableFactor::JsonTable { .. } | TableFactor::OpenJsonTable { .. } | TableFactor::XmlTable { .. } => {
            ("a table function over JSON or XML", "Use operators such as -> in the select list.")
        }
        _ => return Ok(()),
    };
    Err(SqlError::unsupported(format!("{what} is not supported")).with_hint(hint).at(span_position(factor.span()).unwrap_or(1)))
}
