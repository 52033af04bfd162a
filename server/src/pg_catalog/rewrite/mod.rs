//! Rewrites queries over the system relations into what DataFusion plans: only those, never a user's own.
//!
//! In order, from the inside out: names lose `pg_catalog`, casts to the `reg…` types become look-ups, `= ANY (array)` becomes a
//! search ([`expressions`]); what reads only relations that never have rows becomes empty, correlated scalar subqueries
//! become outer joins ([`nothing`], [`subqueries`]); results are named as Postgres names them ([`names`]), and those of the `reg…` types
//! hold both the name and the OID ([`shown`]).

mod build;
mod copied;
mod expressions;
mod names;
mod nothing;
mod rename;
mod roles;
mod shown;
mod spread;
mod subqueries;

use super::relations::RELATIONS;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart, Query, Statement, TableAlias, TableFactor,
    Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// The schemas whose relations are system relations.
const SCHEMAS: [&str; 2] = ["pg_catalog", "information_schema"];

/// Whether a statement reads system relations, or names functions or types by `pg_catalog`.
pub fn touches_system(statement: &Statement) -> bool {
    statement.visit(&mut Detector).is_break()
}

/// Rewrites a statement that [`touches_system`]; any other stays as it is. `empty` are relations that have no rows now.
pub fn rewrite(statement: &mut Statement, empty: &[&str]) {
    if !touches_system(statement) {
        return;
    }
    // Neither visitor breaks off.
    let mut rewriter = Rewriter { subqueries: subqueries::Subqueries::default(), depth: 0, empty, shown: vec![] };
    let _ = statement.visit(&mut rewriter);
}

fn ident_of(part: &ObjectNamePart) -> Option<&Ident> {
    part.as_ident()
}

/// The parts of a name, lowercased unless quoted.
fn parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ident_of).map(folded).collect()
}

/// An identifier as it is looked up.
fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn is_system_relation(name: &ObjectName) -> bool {
    match parts(name).as_slice() {
        [relation] => is_pg_catalog(relation),
        [.., schema, _] => SCHEMAS.contains(&schema.as_str()),
        [] => false,
    }
}

fn is_pg_catalog(name: &str) -> bool {
    name.starts_with("pg_") && RELATIONS.iter().copied().flatten().any(|relation| relation.name == name)
}

struct Detector;

impl Visitor for Detector {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if is_system_relation(relation) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let found = match expr {
            Expr::Function(function) => parts(&function.name).first().is_some_and(|part| SCHEMAS.contains(&part.as_str())),
            Expr::Cast { data_type: DataType::Regclass, .. } => true,
            Expr::Cast { expr, data_type: DataType::Custom(..), .. } if expressions::is_type_name(expr) => true,
            Expr::Cast { data_type: DataType::Custom(name, _), .. } => {
                let parts = parts(name);
                parts.first().is_some_and(|part| part == "pg_catalog") || parts.last().is_some_and(|part| part.starts_with("reg"))
            }
            _ => false,
        };
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Rewriter<'a> {
    /// Relations that have no rows now: what clients ask of them is the harder to plan, the less there is of it.
    empty: &'a [&'a str],
    subqueries: subqueries::Subqueries,
    /// How many queries stand around the one that is visited.
    depth: usize,
    /// What shows the results of the outermost query.
    shown: Vec<Option<&'static str>>,
}

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if self.depth == 0 {
            self.shown = shown::functions(query);
        }
        self.depth += 1;
        names::name_recursive(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        self.subqueries.rewrite_query(query);
        if self.depth == 0 {
            shown::show(query, std::mem::take(&mut self.shown));
        }
        names::name_results(query, self.depth == 0);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(names) = roles::role_names(expr) {
            *expr = names;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        expressions::rewrite(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, args, .. } if args.is_some() => {
                strip_schema(name);
                let function = name.0.last().and_then(ident_of).map(folded).unwrap_or_default();
                match (function.as_str(), args.as_mut()) {
                    ("generate_series", Some(args)) => args.args.iter_mut().for_each(as_bigint),
                    ("pg_get_keywords", _) => {
                        *args = None;
                        read_relation(name, alias, &function);
                    }
                    _ => {}
                }
            }
            TableFactor::Function { name, .. } => strip_schema(name),
            TableFactor::Table { name, alias, args: None, .. } if is_system_relation(name) => {
                let relation = name.0.last().and_then(ident_of).map(folded).unwrap_or_default();
                read_relation(name, alias, &relation);
                if self.empty.contains(&relation.as_str())
                    && let Some(nothing) = no_rows_of(&relation, alias)
                {
                    *factor = nothing;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Gives a relation its schema, and its name as an alias, so that its columns can be named by that wherever it stands.
fn read_relation(name: &mut ObjectName, alias: &mut Option<TableAlias>, relation: &str) {
    // A database can only be this one.
    while name.0.len() > 2 {
        name.0.remove(0);
    }
    if name.0.len() == 1 {
        name.0.insert(0, ObjectNamePart::Identifier(Ident::new("pg_catalog")));
    }
    if alias.is_none() {
        *alias = Some(TableAlias { explicit: true, name: Ident::new(relation), columns: vec![] });
    }
}

/// A relation of `pg_catalog` without its rows.
fn no_rows_of(relation: &str, alias: &Option<TableAlias>) -> Option<TableFactor> {
    let subquery = thalweg_planner::parse_query(&format!("SELECT * FROM pg_catalog.{relation} WHERE false")).ok()?;
    Some(TableFactor::Derived { lateral: false, subquery, alias: alias.clone(), sample: None })
}

/// `generate_series` over relations takes wide integers only.
fn as_bigint(arg: &mut FunctionArg) {
    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg
        && !matches!(expr, Expr::Value(_))
    {
        *expr = build::cast(expr.clone(), DataType::BigInt(None));
    }
}

/// Takes `pg_catalog` and its like off a name.
fn strip_schema(name: &mut ObjectName) {
    while name.0.len() > 1 {
        name.0.remove(0);
    }
}

#[cfg(test)]
mod tests;
