//! `ARRAY(SELECT … FROM unnest(c.array) …)` inside a query over `c`: the relation is read again inside, by its OID, since what
//! stands after FROM can't be taken from a row outside.

use super::build::{and, null};
use super::rename::Rename;
use super::subqueries::system_relation;
use super::{folded, parts};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, Select, TableAlias,
    TableFactor, TableWithJoins, VisitMut,
};

/// The system relations of a select that have OIDs, by their aliases.
pub(super) fn relations_of(select: &Select) -> Vec<(String, TableFactor)> {
    let factors =
        select.from.iter().flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation)));
    let known = factors.filter_map(|factor| match factor {
        TableFactor::Table { name, alias: Some(alias), args: None, .. } => {
            let has_oid = system_relation(name)?.columns().iter().any(|column| column.name == "oid");
            has_oid.then(|| (folded(&alias.name), factor.clone()))
        }
        _ => None,
    });
    known.collect()
}

/// Reads the relation again whose array the select begins with; whether it was one of `outer`. Its alias then has a number.
pub(super) fn copy_owner(select: &mut Select, outer: &[(String, TableFactor)], number: usize) -> bool {
    let Some((owner, mut factor)) = owner_of(select, outer) else { return false };
    let copy = format!("{owner}__{number}");
    let mut rename = Rename { from: owner.clone(), to: copy.clone() };
    // The visitor never breaks off.
    let _ = VisitMut::visit(select, &mut rename);
    if let TableFactor::Table { alias, .. } = &mut factor {
        *alias = Some(TableAlias { explicit: true, name: Ident::new(&copy), columns: vec![] });
    }
    let spread = std::mem::replace(&mut select.from[0], TableWithJoins { relation: factor, joins: vec![] });
    let join_operator = JoinOperator::CrossJoin(JoinConstraint::None);
    let crossed = Join { relation: spread.relation, global: false, join_operator };
    select.from[0].joins = std::iter::once(crossed).chain(spread.joins).collect();
    let same = Expr::BinaryOp { left: Box::new(oid(&copy)), op: BinaryOperator::Eq, right: Box::new(oid(&owner)) };
    select.selection = Some(match select.selection.take() {
        Some(selection) => and(selection, same),
        None => same,
    });
    true
}

fn oid(relation: &str) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::new(relation), Ident::new("oid")])
}

/// The outer relation, with its alias, whose column is spread at the head of the select.
fn owner_of(select: &Select, outer: &[(String, TableFactor)]) -> Option<(String, TableFactor)> {
    let array = match &select.from.first()?.relation {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.first()?.clone(),
        TableFactor::Table { name, args: Some(args), .. } if parts(name).last().is_some_and(|name| name == "unnest") => {
            match args.args.first()? {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => expr.clone(),
                _ => null(),
            }
        }
        _ => return None,
    };
    let Expr::CompoundIdentifier(idents) = array else { return None };
    let [alias, _] = idents.as_slice() else { return None };
    outer.iter().find(|(name, _)| *name == folded(alias)).cloned()
}
