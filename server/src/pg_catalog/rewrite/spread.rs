//! `FROM relation r, unnest(r.array) AS u(x)`: a relation spread by its own arrays, as a select over it with `unnest` in its
//! list, which is where DataFusion has it.

use super::build::{call, number};
use super::folded;
use super::rename::Rename;
use super::subqueries::system_relation;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, OrderBy, Query, Select,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, ValueWithSpan, VisitMut,
    WildcardAdditionalOptions,
};

/// What an `unnest` after FROM spreads, and what its columns are called.
struct Spread {
    /// The alias of the relation that has the arrays.
    owner: String,
    arrays: Vec<Expr>,
    alias: String,
    columns: Vec<Ident>,
    with_ordinality: bool,
}

/// Rewrites every such relation of a select, and the order of its rows with it.
pub fn spread_relations(select: &mut Select, order_by: &mut Option<OrderBy>) {
    while let Some(spread) = take_spread(&mut select.from) {
        let Some(factor) = owner_of(&mut select.from, &spread.owner) else { return };
        let alias = TableAlias { explicit: true, name: Ident::new(&spread.owner), columns: vec![] };
        let subquery = Box::new(spread_query(factor.clone(), &spread));
        *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
        let mut rename = Rename { from: spread.alias.clone(), to: spread.owner.clone() };
        // The visitor never breaks off.
        let _ = VisitMut::visit(select, &mut rename);
        let _ = VisitMut::visit(order_by, &mut rename);
    }
}

/// Takes the first `unnest` out of FROM that spreads a relation beside it.
fn take_spread(from: &mut Vec<TableWithJoins>) -> Option<Spread> {
    let all = &from[..];
    let found = from.iter().enumerate().find_map(|(at, from)| {
        if from.joins.is_empty()
            && at > 0
            && let Some(spread) = spread_of(&from.relation, all)
        {
            return Some((at, None, spread));
        }
        let joined = from.joins.iter().enumerate().filter(|(_, join)| is_unconditional(join));
        joined.filter_map(|(place, join)| Some((at, Some(place), spread_of(&join.relation, all)?))).next()
    });
    let (at, place, spread) = found?;
    owner_of(from, &spread.owner)?;
    match place {
        Some(place) => {
            from[at].joins.remove(place);
        }
        None => {
            from.remove(at);
        }
    }
    Some(spread)
}

fn is_unconditional(join: &Join) -> bool {
    match &join.join_operator {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(JoinConstraint::On(on)) | JoinOperator::Inner(JoinConstraint::On(on)) => {
            matches!(on, Expr::Value(ValueWithSpan { value, .. }) if value.to_string() == "true")
        }
        _ => false,
    }
}

fn spread_of(factor: &TableFactor, from: &[TableWithJoins]) -> Option<Spread> {
    let (arrays, alias, with_ordinality) = match factor {
        TableFactor::UNNEST { array_exprs, alias, with_ordinality, .. } => (array_exprs.clone(), alias, *with_ordinality),
        TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. }
            if super::parts(name).last().is_some_and(|name| name == "unnest") =>
        {
            let arrays = args.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            });
            (arrays.collect::<Option<Vec<_>>>()?, alias, *with_ordinality)
        }
        _ => return None,
    };
    let mut owners = arrays.iter().map(|array| match array {
        Expr::CompoundIdentifier(idents) if idents.len() == 2 => Some(folded(&idents[0])),
        Expr::Identifier(column) => relation_with(from, &folded(column)),
        _ => None,
    });
    let owner = owners.next()??;
    if !owners.all(|other| other.as_deref() == Some(owner.as_str())) {
        return None;
    }
    let alias_name = alias.as_ref().map_or_else(|| "unnest".to_string(), |alias| folded(&alias.name));
    let mut columns: Vec<Ident> = alias.iter().flat_map(|alias| alias.columns.iter().map(|column| column.name.clone())).collect();
    if columns.is_empty() {
        // One column is called as the whole is.
        columns = vec![Ident::new(&alias_name)];
    }
    let wanted = arrays.len() + usize::from(with_ordinality);
    for number in columns.len()..wanted {
        columns.push(if number == arrays.len() { Ident::new("ordinality") } else { Ident::new(format!("unnest{number}")) });
    }
    Some(Spread { owner, arrays, alias: alias_name, columns, with_ordinality })
}

/// The alias of the system relation after FROM that has a column of this name.
fn relation_with(from: &[TableWithJoins], column: &str) -> Option<String> {
    let factors =
        from.iter().flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
    factors.into_iter().find_map(|factor| match factor {
        TableFactor::Table { name, alias: Some(alias), args: None, .. } => {
            let relation = system_relation(name)?;
            relation.columns().iter().any(|known| known.name == column).then(|| folded(&alias.name))
        }
        _ => None,
    })
}

fn owner_of<'a>(from: &'a mut [TableWithJoins], owner: &str) -> Option<&'a mut TableFactor> {
    let factors = from
        .iter_mut()
        .flat_map(|from| std::iter::once(&mut from.relation).chain(from.joins.iter_mut().map(|join| &mut join.relation)));
    factors.into_iter().find(|factor| {
        matches!(factor, TableFactor::Table { alias: Some(alias), args: None, .. } | TableFactor::Derived { alias: Some(alias), .. }
            if folded(&alias.name) == owner)
    })
}

/// `SELECT owner.*, unnest(array) AS column, … FROM owner`.
fn spread_query(factor: TableFactor, spread: &Spread) -> Query {
    let mut statement = super::build::select_nothing();
    let all = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![Ident::new(&spread.owner)]));
    let mut projection = vec![SelectItem::QualifiedWildcard(all, WildcardAdditionalOptions::default())];
    let places = call("_subscripts", vec![spread.arrays[0].clone(), number(1), number(1)]);
    let lists = spread.arrays.iter().cloned().chain(spread.with_ordinality.then_some(places));
    for (list, column) in lists.zip(&spread.columns) {
        projection.push(SelectItem::ExprWithAlias { expr: call("unnest", vec![list]), alias: column.clone() });
    }
    if let SetExpr::Select(select) = &mut *statement.body {
        select.projection = projection;
        select.from = vec![TableWithJoins { relation: factor, joins: vec![] }];
    }
    statement
}
