//! Rewrites of whole selects: subqueries that can give nothing become constants; correlated scalar subqueries, which DataFusion
//! plans only when they aggregate over equalities, become outer joins.

use super::build::{and, boolean, call, empty_text_array, null, number};
use super::copied::{copy_owner, relations_of};
use super::nothing::{aggregates, is_never, make_empty, reads_nothing, select_of};
use super::spread::spread_relations;
use super::{folded, parts};
use crate::information_schema;
use crate::pg_catalog::relation::Relation;
use crate::pg_catalog::relations::RELATIONS;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator,
    LimitClause, ObjectName, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins,
    VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Rewrites queries; counts what it has joined in, so that each has a name of its own.
#[derive(Default)]
pub struct Subqueries {
    joined: usize,
}

impl Subqueries {
    /// Rewrites a query whose subqueries are rewritten already.
    pub fn rewrite_query(&mut self, query: &mut Query) {
        let Query { body, order_by, .. } = query;
        self.rewrite_body(body, order_by);
    }

    fn rewrite_body(&mut self, body: &mut SetExpr, order_by: &mut Option<OrderBy>) {
        match body {
            SetExpr::Select(select) => {
                spread_relations(select, order_by);
                self.rewrite_select(select);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.rewrite_body(left, &mut None);
                self.rewrite_body(right, &mut None);
            }
            _ => {}
        }
    }

    fn rewrite_select(&mut self, select: &mut Select) {
        let mut system = SystemColumns::of(select);
        visit_expressions(select, &mut system);
        let outer = relations_of(select);
        let mut constants = Constants { depth: 0, outer, copied: &mut self.joined };
        visit_expressions(select, &mut constants);
        if reads_nothing(select) && !aggregates(select) {
            make_empty(select);
        }
        if is_grouped(select) || select.from.is_empty() {
            return;
        }
        let mut lifter = Lifter { depth: 0, joined: &mut self.joined, joins: vec![] };
        visit_expressions(select, &mut lifter);
        let joins = std::mem::take(&mut lifter.joins);
        if !joins.is_empty() {
            let mut from = one_from(std::mem::take(&mut select.from));
            from.joins.extend(joins);
            select.from = vec![from];
        }
    }
}

/// `alias.tableoid`, a column that every relation has: the OID of the relation that the alias stands for.
struct SystemColumns(Vec<(String, u32)>);

impl SystemColumns {
    fn of(select: &Select) -> SystemColumns {
        let factors = select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        let known = factors.filter_map(|factor| match factor {
            TableFactor::Table { name, alias: Some(alias), args: None, .. } => {
                Some((folded(&alias.name), system_relation(name)?.oid))
            }
            _ => None,
        });
        SystemColumns(known.collect())
    }
}

impl VisitorMut for SystemColumns {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(idents) = expr
            && let [alias, column] = idents.as_slice()
            && folded(column) == "tableoid"
            && let Some((_, oid)) = self.0.iter().find(|(name, _)| *name == folded(alias))
        {
            *expr = number(i64::from(*oid));
        }
        ControlFlow::Continue(())
    }
}

/// Visits the select list and the condition, but not the relations.
fn visit_expressions(select: &mut Select, visitor: &mut impl VisitorMut<Break = ()>) {
    // The visitors here never break off.
    for item in &mut select.projection {
        let _ = item.visit(visitor);
    }
    if let Some(selection) = &mut select.selection {
        let _ = selection.visit(visitor);
    }
}

/// Replaces subqueries by what they are when nothing can be in them, and `ARRAY(…)` by an aggregate.
struct Constants<'a> {
    depth: usize,
    /// The relations that the select reads.
    outer: Vec<(String, TableFactor)>,
    copied: &'a mut usize,
}

impl Constants<'_> {
    /// `ARRAY(query)`.
    fn array(&mut self, mut query: Box<Query>) -> Option<Expr> {
        let Query { body, order_by, .. } = &mut *query;
        if let SetExpr::Select(select) = &mut **body
            && copy_owner(select, &self.outer, *self.copied + 1)
        {
            *self.copied += 1;
            spread_relations(select, order_by);
        }
        match select_of(&query) {
            Some(select) if options_of(select).is_some() => Some(call("_option_texts", options_of(select).into_iter().collect())),
            Some(select) if is_never(select) || spreads_argument(select) => Some(empty_text_array()),
            _ => aggregated(&query),
        }
    }
}

impl VisitorMut for Constants<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Subquery(query) if select_of(query).is_some_and(|s| is_never(s) && !aggregates(s)) => *expr = null(),
            // A walk along the base types of a domain: there are no domains.
            Expr::Subquery(query) if query.with.as_ref().is_some_and(|with| with.recursive) => *expr = null(),
            Expr::Exists { subquery, negated } if select_of(subquery).is_some_and(is_never) => *expr = boolean(*negated),
            Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
                if parts(name).last().is_some_and(|name| name.eq_ignore_ascii_case("array")) =>
            {
                if let Some(found) = self.array(query.clone()) {
                    *expr = found;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// `FROM unnest(outer column)`: the only such columns are options, which nothing has.
fn spreads_argument(select: &Select) -> bool {
    select.from.iter().any(|from| match &from.relation {
        TableFactor::UNNEST { .. } => true,
        TableFactor::Table { name, args: Some(_), .. } => parts(name).last().is_some_and(|name| name == "unnest"),
        _ => false,
    })
}

/// What `FROM pg_options_to_table(…)` takes apart; the select list then is each option as it would be declared.
fn options_of(select: &Select) -> Option<Expr> {
    match select.from.as_slice() {
        [TableWithJoins { relation: TableFactor::Table { name, args: Some(args), .. }, .. }]
            if parts(name).last().is_some_and(|name| name == "pg_options_to_table") =>
        {
            match args.args.first() {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))) => Some(expr.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `ARRAY(SELECT e … ORDER BY o)` as `(SELECT array_agg(e ORDER BY o) …)`.
fn aggregated(query: &Query) -> Option<Expr> {
    let mut query = query.clone();
    let order = match query.order_by.take().map(|order| order.kind) {
        Some(OrderByKind::Expressions(order)) => order,
        _ => vec![],
    };
    let SetExpr::Select(select) = &mut *query.body else { return None };
    if select.projection.len() != 1 || is_grouped(select) || select.distinct.is_some() || query.limit_clause.is_some() {
        return None;
    }
    let value = match select.projection.pop()? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
        _ => return None,
    };
    // A place in the select list is the value itself.
    let order = order.into_iter().map(|mut by| {
        if matches!(by.expr, Expr::Value(_)) {
            by.expr = value.clone();
        }
        by
    });
    let order: Vec<_> = order.collect();
    let Expr::Function(mut aggregate) = call("array_agg", vec![value]) else { return None };
    if let (FunctionArguments::List(list), false) = (&mut aggregate.args, order.is_empty()) {
        list.clauses.push(datafusion::sql::sqlparser::ast::FunctionArgumentClause::OrderBy(order));
    }
    select.projection = vec![SelectItem::ExprWithAlias { expr: Expr::Function(aggregate), alias: Ident::new("array") }];
    Some(Expr::Subquery(Box::new(query)))
}

fn is_grouped(select: &Select) -> bool {
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
        GroupByExpr::All(_) => true,
    };
    grouped || select.having.is_some() || aggregates(select)
}

/// All that stands after FROM as one chain of joins, so that a further join can refer to each of it.
fn one_from(from: Vec<TableWithJoins>) -> TableWithJoins {
    let mut all = from.into_iter();
    let mut first = all.next().expect("a select without FROM is left alone");
    for other in all {
        let relation = if other.joins.is_empty() {
            other.relation
        } else {
            TableFactor::NestedJoin { table_with_joins: Box::new(other), alias: None }
        };
        first.joins.push(cross(relation));
    }
    first
}

fn cross(relation: TableFactor) -> Join {
    Join { relation, global: false, join_operator: JoinOperator::CrossJoin(JoinConstraint::None) }
}

/// Takes correlated scalar subqueries out of expressions, as joins.
struct Lifter<'a> {
    depth: usize,
    joined: &'a mut usize,
    joins: Vec<Join>,
}

impl VisitorMut for Lifter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Subquery(query) = expr
            && let Some((join, value)) = lifted(query, *self.joined + 1)
        {
            *self.joined += 1;
            self.joins.push(join);
            *expr = Expr::Nested(Box::new(value));
        }
        ControlFlow::Continue(())
    }
}

/// A subquery as an outer join and the value that it gives; none if it is not correlated, or not of this form.
fn lifted(query: &Query, number: usize) -> Option<(Join, Expr)> {
    let limited = !matches!(&query.limit_clause, None | Some(LimitClause::LimitOffset { limit: None, offset: None, .. }));
    if query.with.is_some() || query.order_by.is_some() || limited || query.fetch.is_some() {
        return None;
    }
    let SetExpr::Select(select) = &*query.body else { return None };
    if is_grouped(select) || select.distinct.is_some() || select.from.is_empty() {
        return None;
    }
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] = select.projection.as_slice() else {
        return None;
    };
    let mut renamer = Renamer { number, relations: vec![], outer: false };
    let mut factors = vec![];
    let mut conditions: Vec<Expr> = select.selection.iter().cloned().collect();
    for from in &select.from {
        factors.push(renamer.relation(&from.relation)?);
        for join in &from.joins {
            factors.push(renamer.relation(&join.relation)?);
            match &join.join_operator {
                JoinOperator::Join(JoinConstraint::On(on)) | JoinOperator::Inner(JoinConstraint::On(on)) => {
                    conditions.push(on.clone());
                }
                JoinOperator::CrossJoin(_) => {}
                _ => return None,
            }
        }
    }
    let mut condition = conditions.into_iter().reduce(and).unwrap_or_else(|| boolean(true));
    let mut value = value.clone();
    let _ = VisitMut::visit(&mut condition, &mut renamer);
    let _ = VisitMut::visit(&mut value, &mut renamer);
    if !renamer.outer {
        return None;
    }
    let mut factors = factors.into_iter();
    let first = factors.next()?;
    let rest: Vec<Join> = factors.map(cross).collect();
    let relation = if rest.is_empty() {
        first
    } else {
        let nested = TableWithJoins { relation: first, joins: rest };
        TableFactor::NestedJoin { table_with_joins: Box::new(nested), alias: None }
    };
    let join_operator = JoinOperator::LeftOuter(JoinConstraint::On(condition));
    Some((Join { relation, global: false, join_operator }, value))
}

/// Gives the relations of a subquery new names, and finds out whether it refers to others.
struct Renamer {
    number: usize,
    /// The old name of each, and the relation.
    relations: Vec<(String, &'static Relation)>,
    outer: bool,
}

/// The system relation of this name.
pub(super) fn system_relation(name: &ObjectName) -> Option<&'static Relation> {
    let parts = parts(name);
    let relations = match parts.as_slice() {
        [.., schema, _] if schema == "information_schema" => information_schema::RELATIONS,
        _ => RELATIONS,
    };
    relations.iter().copied().flatten().find(|relation| Some(relation.name) == parts.last().map(String::as_str))
}

impl Renamer {
    fn new_name(&self, old: &str) -> String {
        format!("{old}__{}", self.number)
    }

    /// A relation under its new name; none if it is none of ours.
    fn relation(&mut self, factor: &TableFactor) -> Option<TableFactor> {
        let mut factor = factor.clone();
        let TableFactor::Table { name, alias, args: None, .. } = &mut factor else { return None };
        let relation = system_relation(name)?;
        let old = alias.as_ref().map_or_else(|| relation.name.to_string(), |alias| folded(&alias.name));
        *alias = Some(TableAlias { explicit: true, name: Ident::new(self.new_name(&old)), columns: vec![] });
        self.relations.push((old, relation));
        Some(factor)
    }
}

impl VisitorMut for Renamer {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::CompoundIdentifier(idents) if idents.len() == 2 => {
                let old = folded(&idents[0]);
                if self.relations.iter().any(|(name, _)| *name == old) {
                    idents[0] = Ident::new(self.new_name(&old));
                } else {
                    self.outer = true;
                }
            }
            Expr::Identifier(ident) => {
                let column = folded(ident);
                let owner = self.relations.iter().find(|(_, r)| r.columns().iter().any(|c| c.name == column));
                match owner {
                    Some((old, _)) => {
                        *expr = Expr::CompoundIdentifier(vec![Ident::new(self.new_name(old)), ident.clone()]);
                    }
                    None => self.outer = true,
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
