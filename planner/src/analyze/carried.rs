//! Operators, functions and orders of types that are carried by text: what DataFusion would compute with the texts is not what Postgres
//! computes with the values.
//!
//! Equality is that of texts, once both sides are of one type; orders go by keys; casts to `text` show what Postgres shows. All else is
//! refused. It comes first of all rules, as it is the fields' metadata that says what a text is.

mod calls;
mod rows;

use super::operators::{at, is_comparison};
use crate::functions::{assign, carried, error};
use arrow::datatypes::{DataType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Cast, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, SortExpr};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{CarriedType, SqlError, SqlState, SqlType};

#[derive(Debug)]
pub(super) struct CarriedTypes;

impl AnalyzerRule for CarriedTypes {
    fn name(&self) -> &str {
        "carried_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = config.execution.time_zone.as_deref().unwrap_or("+00:00");
        Ok(plan.transform_up_with_subqueries(|node| rewrite_node(node, zone))?.data)
    }
}

fn rewrite_node(node: LogicalPlan, zone: &str) -> Result<Transformed<LogicalPlan>> {
    let node = match node {
        LogicalPlan::Union(union) => LogicalPlan::Union(rows::typed_union(union, zone)?),
        other => other,
    };
    let schema = merge_schema(&node.inputs());
    let scope = Scope { schema: &schema, zone };
    check_node(&node, &scope)?;
    let extremes = calls::extremes(&node, &schema);
    let names = NamePreserver::new(&node);
    let (is_sort, is_named) = (matches!(node, LogicalPlan::Sort(_)), !matches!(node, LogicalPlan::Values(_)));
    let node = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|part| scope.rewrite(part))?;
        if is_sort {
            return expr.transform_data(|expr| scope.order_key(expr));
        }
        Ok(expr.update_data(|expr| if is_named { name.restore(expr) } else { expr }))
    })?;
    let node = node.map_data(|node| match node {
        LogicalPlan::Values(values) => rows::typed_arrays(values, zone),
        node => node.recompute_schema(),
    })?;
    if extremes.iter().all(Option::is_none) { Ok(node) } else { node.map_data(|node| calls::labelled(node, &extremes)) }
}

/// Refuses nodes that compare what has no equality, or values of different types.
fn check_node(node: &LogicalPlan, scope: &Scope<'_>) -> Result<()> {
    match node {
        LogicalPlan::Union(union) => rows::check_union(union),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let types = input.schema().fields().iter().flat_map(|field| carried_within(field));
            types.into_iter().try_for_each(|of| has_equality(&of))
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => distinct.on_expr.iter().try_for_each(|expr| scope.check_equality(expr)),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().try_for_each(|expr| match expr {
            Expr::GroupingSet(sets) => sets.distinct_expr().into_iter().try_for_each(|expr| scope.check_equality(expr)),
            expr => scope.check_equality(expr),
        }),
        LogicalPlan::Join(join) => join.on.iter().try_for_each(|(left, right)| {
            let types = (type_of(left, join.left.schema()), type_of(right, join.right.schema()));
            match types {
                (None, None) => Ok(()),
                (Some(l), Some(r)) if alike(&l, &r) => has_equality(&l),
                _ => {
                    let (l, r) = (shown(left, join.left.schema()), shown(right, join.right.schema()));
                    Err(no_operator(&l, Operator::Eq, &r, left))
                }
            }
        }),
        _ => Ok(()),
    }
}

/// Where expressions are: their columns, and the time zone of texts that say none.
struct Scope<'a> {
    schema: &'a DFSchema,
    zone: &'a str,
}

impl Scope<'_> {
    /// One expression whose parts have been rewritten.
    fn rewrite(&self, expr: Expr) -> Result<Transformed<Expr>> {
        match expr {
            Expr::Cast(cast) => self.cast(cast),
            Expr::BinaryExpr(binary) => self.binary_expr(binary),
            Expr::Between(between) => self.between(between),
            Expr::InList(list) => self.in_list(list),
            Expr::InSubquery(search) => {
                let found = carried_by(search.subquery.subquery.schema().field(0));
                match (self.type_of(&search.expr), found) {
                    (None, None) => {}
                    (Some(l), Some(r)) if alike(&l, &r) => has_equality(&l)?,
                    _ => {
                        let right = SqlType::from_field(search.subquery.subquery.schema().field(0));
                        let right = right.map_or_else(|_| "unknown".to_string(), |t| t.to_string());
                        return Err(no_operator(&self.shown(&search.expr), Operator::Eq, &right, &search.expr));
                    }
                }
                Ok(Transformed::no(Expr::InSubquery(search)))
            }
            Expr::Case(case) => self.case(case),
            Expr::ScalarFunction(call) => self.function(call),
            Expr::AggregateFunction(call) => self.aggregate(call),
            Expr::WindowFunction(window) => self.window(*window),
            Expr::Like(like) => {
                if let Some(found) = self.type_of(&like.expr).or_else(|| self.type_of(&like.pattern)) {
                    return Err(unsupported(&format!("LIKE on type {found}")));
                }
                Ok(Transformed::no(Expr::Like(like)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn type_of(&self, expr: &Expr) -> Option<CarriedType> {
        type_of(expr, self.schema)
    }

    fn shown(&self, expr: &Expr) -> String {
        shown(expr, self.schema)
    }

    fn check_equality(&self, expr: &Expr) -> Result<()> {
        self.types_within(expr).iter().try_for_each(has_equality)
    }

    /// The types that are carried by text which a value has within, or is of.
    fn types_within(&self, expr: &Expr) -> Vec<CarriedType> {
        // DataFusion forgets it where a row is made.
        if let Expr::ScalarFunction(row) = expr
            && row.name() == "struct"
        {
            return row.args.iter().flat_map(|part| self.types_within(part)).collect();
        }
        expr.to_field(self.schema).map(|(_, field)| carried_within(&field)).unwrap_or_default()
    }

    /// Refuses an order of values that have others within which are not in the order of their texts.
    fn check_order_within(&self, expr: &Expr) -> Result<()> {
        match self.types_within(expr).into_iter().find(|found| !found.sorts_as_text()) {
            Some(found) => Err(unsupported(&format!("an order of arrays and rows with values of type {found}"))),
            None => Ok(()),
        }
    }

    /// The value of a type, from its text.
    fn typed(&self, text: Expr, of: &CarriedType) -> Expr {
        self.typed_as(text, &SqlType::Carried(of.clone()), of)
    }

    /// A text as a value of a type, or a list of texts as an array of them.
    fn typed_as(&self, text: Expr, to: &SqlType, of: &CarriedType) -> Expr {
        let Expr::ScalarFunction(mut call) = assign::to_type(text, to) else {
            unreachable!("types that are carried by text are checked by a function")
        };
        if of.depends_on_zone() {
            call.args.push(Expr::Literal(ScalarValue::Utf8(Some(self.zone.to_string())), None));
        }
        Expr::ScalarFunction(call)
    }

    /// What stands for the value where values are put in order.
    fn order_key(&self, expr: Expr) -> Result<Transformed<Expr>> {
        match self.type_of(&expr) {
            None => self.check_order_within(&expr).map(|()| Transformed::no(expr)),
            Some(found) if !found.has_order() => Err(error(at(found.no_order(), &expr))),
            Some(found) if found.sorts_as_text() => Ok(Transformed::no(expr)),
            Some(found) => Ok(Transformed::yes(carried::order_key(expr, &found))),
        }
    }

    fn sort_keys(&self, keys: &mut [SortExpr]) -> Result<bool> {
        let mut changed = false;
        for key in keys {
            let expr = std::mem::replace(&mut key.expr, Expr::Literal(ScalarValue::Null, None));
            let keyed = self.order_key(expr)?;
            changed |= keyed.transformed;
            key.expr = keyed.data;
        }
        Ok(changed)
    }

    fn cast(&self, cast: Cast) -> Result<Transformed<Expr>> {
        if let DataType::List(item) = &cast.data_type
            && let Some(of) = carried_by(item)
        {
            return self.array_cast(cast, &of);
        }
        let Some(from) = self.type_of(&cast.expr) else { return Ok(Transformed::no(Expr::Cast(cast))) };
        // A parameter's value is given its own type.
        if matches!(*cast.expr, Expr::Literal(..)) && cast.data_type == DataType::Utf8 {
            return Ok(Transformed::no(Expr::Cast(cast)));
        }
        match (from, &cast.data_type) {
            (from, DataType::Utf8) => Ok(Transformed::yes(carried::as_text(*cast.expr, &from))),
            (CarriedType::Money, DataType::Decimal128(precision, scale)) => {
                let number = Box::new(carried::money_number(*cast.expr));
                // A number of no size keeps the places that there are.
                let scale = if (*precision, *scale) == NUMERIC_DEFAULT { 2 } else { *scale };
                Ok(Transformed::yes(Expr::Cast(Cast::new(number, DataType::Decimal128(*precision, scale)))))
            }
            (from @ CarriedType::TimeTz, DataType::Time64(_)) => {
                let text = carried::as_text(*cast.expr, &from);
                Ok(Transformed::yes(Expr::Cast(Cast::new(Box::new(text), cast.data_type))))
            }
            (from, to) => {
                let to = SqlType::from_arrow(to).map_or_else(|_| to.to_string(), |t| t.to_string());
                Err(error(at(no_cast(&from.to_string(), &to), &cast.expr)))
            }
        }
    }

    fn binary_expr(&self, binary: BinaryExpr) -> Result<Transformed<Expr>> {
        let (l, r) = (self.type_of(&binary.left), self.type_of(&binary.right));
        let is_logic = matches!(binary.op, Operator::And | Operator::Or);
        let Some(of) = l.as_ref().or(r.as_ref()).filter(|_| !is_logic) else {
            if is_comparison(binary.op) {
                self.check_within(&binary)?;
            }
            return Ok(Transformed::no(Expr::BinaryExpr(binary)));
        };
        let BinaryExpr { left, op, right } = binary;
        let (left, right) = (*left, *right);
        if op == Operator::StringConcat {
            let are_strings =
                |of: &CarriedType| matches!(of, CarriedType::Bit(_) | CarriedType::VarBit(_) | CarriedType::TsVector);
            if l.is_some() && r.is_some() || are_strings(of) {
                return Err(unsupported(&format!("operator {} || {}", self.shown(&left), self.shown(&right))));
            }
            let text = |side: Expr, of: Option<&CarriedType>| match of {
                Some(of) => carried::as_text(side, of),
                None => side,
            };
            return Ok(Transformed::yes(binary_of(text(left, l.as_ref()), op, text(right, r.as_ref()))));
        }
        if !is_comparison(op) {
            return Err(unsupported(&format!("operator {} {op} {}", self.shown(&left), self.shown(&right))));
        }
        let (left, right) = self.pair(left, op, right)?;
        Ok(Transformed::yes(self.compared(left, op, right)?))
    }

    /// Refuses comparisons of arrays and rows that can't be made by the texts in them.
    fn check_within(&self, binary: &BinaryExpr) -> Result<()> {
        use Operator::{Gt, GtEq, Lt, LtEq};
        [&binary.left, &binary.right].into_iter().try_for_each(|side| match binary.op {
            Lt | LtEq | Gt | GtEq => self.check_order_within(side),
            _ => self.check_equality(side),
        })
    }

    /// A comparison of two values of one type.
    fn compared(&self, left: Expr, op: Operator, right: Expr) -> Result<Expr> {
        if matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
            return Ok(binary_of(self.order_key(left)?.data, op, self.order_key(right)?.data));
        }
        if self.type_of(&left).is_some_and(|of| !of.has_equality()) {
            return Err(no_operator(&self.shown(&left), op, &self.shown(&right), &left));
        }
        Ok(binary_of(left, op, right))
    }

    /// Both sides of an operator as values of one type, of which at least one is carried by text.
    fn pair(&self, left: Expr, op: Operator, right: Expr) -> Result<(Expr, Expr)> {
        use CarriedType::{Cidr, Inet};
        Ok(match (self.type_of(&left), self.type_of(&right)) {
            (Some(l), Some(r)) if alike(&l, &r) => (left, right),
            (Some(Inet), Some(Cidr)) => (left, self.typed(carried::as_text(right, &Cidr), &Inet)),
            (Some(Cidr), Some(Inet)) => (self.typed(carried::as_text(left, &Cidr), &Inet), right),
            (Some(l), None) if is_untyped(&right) => (left, self.typed(right, &l.without_length())),
            (None, Some(r)) if is_untyped(&left) => (self.typed(left, &r.without_length()), right),
            _ => return Err(no_operator(&self.shown(&left), op, &self.shown(&right), &left)),
        })
    }

    fn between(&self, between: Between) -> Result<Transformed<Expr>> {
        let parts = [&between.expr, &between.low, &between.high];
        if parts.iter().all(|part| self.type_of(part).is_none()) {
            return Ok(Transformed::no(Expr::Between(between)));
        }
        let Between { expr, negated, low, high } = between;
        let (from, low) = self.pair((*expr).clone(), Operator::GtEq, *low)?;
        let (to, high) = self.pair(*expr, Operator::LtEq, *high)?;
        let within = self.compared(from, Operator::GtEq, low)?.and(self.compared(to, Operator::LtEq, high)?);
        Ok(Transformed::yes(if negated { Expr::Not(Box::new(within)) } else { within }))
    }

    fn in_list(&self, list: InList) -> Result<Transformed<Expr>> {
        let Some(of) = self.type_of(&list.expr) else {
            return match list.list.iter().find(|item| self.type_of(item).is_some()) {
                Some(item) => Err(no_operator(&self.shown(&list.expr), Operator::Eq, &self.shown(item), &list.expr)),
                None => Ok(Transformed::no(Expr::InList(list))),
            };
        };
        has_equality(&of)?;
        let InList { expr, list, negated } = list;
        let item = |item: Expr| match self.type_of(&item) {
            Some(found) if alike(&found, &of) => Ok(item),
            Some(found @ CarriedType::Cidr) if of == CarriedType::Inet => Ok(self.typed(carried::as_text(item, &found), &of)),
            None if is_untyped(&item) => Ok(self.typed(item, &of.without_length())),
            _ => Err(no_operator(&of.to_string(), Operator::Eq, &self.shown(&item), &item)),
        };
        let list = list.into_iter().map(item).collect::<Result<_>>()?;
        Ok(Transformed::yes(Expr::InList(InList::new(expr, list, negated))))
    }

    fn case(&self, mut case: Case) -> Result<Transformed<Expr>> {
        let mut changed = false;
        if let Some(value) = case.expr.as_deref().filter(|value| self.type_of(value).is_some()) {
            for (when, _) in &mut case.when_then_expr {
                let (left, right) = self.pair(value.clone(), Operator::Eq, std::mem::replace(when.as_mut(), null()))?;
                self.check_equality(&left)?;
                **when = right;
            }
            changed = true;
        }
        let mut results: Vec<&mut Expr> = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut()).collect();
        results.extend(case.else_expr.as_deref_mut());
        match self.matched("CASE", results)? {
            Some(of) => Ok(Transformed::yes(self.typed(Expr::Case(case), &of))),
            None => Ok(Transformed::new_transformed(Expr::Case(case), changed)),
        }
    }

    /// Makes all parts values of one type, if one of them is carried by text: which.
    fn matched(&self, what: &str, parts: Vec<&mut Expr>) -> Result<Option<CarriedType>> {
        let Some(of) = parts.iter().find_map(|part| self.type_of(part)) else { return Ok(None) };
        for part in parts {
            match self.type_of(part) {
                Some(found) if alike(&found, &of) => {}
                None if is_untyped(part) => *part = self.typed(std::mem::replace(part, null()), &of.without_length()),
                _ => {
                    let message = format!("{what} types {of} and {} cannot be matched", self.shown(part));
                    return Err(error(at(SqlError::new(SqlState::DatatypeMismatch, message), part)));
                }
            }
        }
        Ok(Some(of.without_length()))
    }
}

/// Refuses operators that compute while a query is bound, where DataFusion would say that texts can't be computed with.
#[derive(Debug)]
pub(crate) struct NoArithmetic;

impl ExprPlanner for NoArithmetic {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{BitwiseAnd, BitwiseOr, BitwiseXor};
        use BinaryOperator::{Divide, Minus, Modulo, Multiply, PGBitwiseShiftLeft, PGBitwiseShiftRight, PGBitwiseXor, Plus};
        let computes = matches!(raw.op, Plus | Minus | Multiply | Divide | Modulo | BitwiseAnd | BitwiseOr | BitwiseXor)
            || matches!(raw.op, PGBitwiseShiftLeft | PGBitwiseShiftRight | PGBitwiseXor);
        if computes && [&raw.left, &raw.right].into_iter().any(|side| type_of(side, schema).is_some()) {
            let (left, right) = (shown(&raw.left, schema), shown(&raw.right, schema));
            return Err(unsupported(&format!("operator {left} {} {right}", raw.op)));
        }
        Ok(PlannerResult::Original(raw))
    }
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Option<CarriedType> {
    // What has no type before coercion, such as a parameter, is no value of these.
    carried_by(expr.to_field(schema).ok()?.1.as_ref())
}

fn carried_by(field: &Field) -> Option<CarriedType> {
    match SqlType::from_field(field) {
        Ok(SqlType::Carried(found)) => Some(found),
        _ => None,
    }
}

/// The types that are carried by text of a field's values, or of what is within them.
fn carried_within(field: &Field) -> Vec<CarriedType> {
    match field.data_type() {
        DataType::List(item) => carried_within(item),
        DataType::Struct(fields) => fields.iter().flat_map(|field| carried_within(field)).collect(),
        _ => carried_by(field).into_iter().collect(),
    }
}

fn shown(expr: &Expr, schema: &DFSchema) -> String {
    let found = expr.to_field(schema).ok().and_then(|(_, field)| SqlType::from_field(&field).ok());
    found.filter(|_| !is_untyped(expr)).map_or_else(|| "unknown".to_string(), |found| found.to_string())
}

/// Whether values of two types are of one, but for their length.
fn alike(left: &CarriedType, right: &CarriedType) -> bool {
    let kind = |of: &CarriedType| if matches!(of, CarriedType::VarBit(_)) { CarriedType::Bit(None) } else { of.without_length() };
    kind(left) == kind(right)
}

/// Whether Postgres casts values of one type to the other, and their text is that of the result.
fn is_castable(from: &CarriedType, to: &CarriedType) -> bool {
    use CarriedType::{Cidr, Inet, MacAddr, MacAddr8};
    alike(from, to) || matches!((from, to), (Inet, Cidr) | (Cidr, Inet) | (MacAddr, MacAddr8))
}

/// Whether an expression is a literal in quotes or NULL, or a parameter of which nothing is known: it takes the type beside it.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Utf8(_) | ScalarValue::Null, _) | Expr::Placeholder(Placeholder { field: None, .. }) => true,
        Expr::Cast(cast) => matches!(*cast.expr, Expr::Literal(ScalarValue::Null, _)),
        _ => false,
    }
}

fn binary_of(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn null() -> Expr {
    Expr::Literal(ScalarValue::Null, None)
}

fn has_equality(of: &CarriedType) -> Result<()> {
    if of.has_equality() { Ok(()) } else { Err(error(of.no_equality())) }
}

fn no_cast(from: &str, to: &str) -> SqlError {
    SqlError::new(SqlState::CannotCoerce, format!("cannot cast type {from} to {to}"))
}

fn no_operator(left: &str, op: Operator, right: &str, place: &Expr) -> datafusion::error::DataFusionError {
    let found = SqlError::new(SqlState::UndefinedFunction, format!("operator does not exist: {left} {op} {right}"))
        .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts.");
    error(at(found, place))
}

fn unsupported(what: &str) -> datafusion::error::DataFusionError {
    let found = SqlError::unsupported(format!("{what} is not supported"))
        .with_detail("Values of this type are kept and compared, and not computed with.")
        .with_hint("Cast the value to text, or an amount of money to numeric.");
    error(found)
}

#[cfg(test)]
mod tests;
