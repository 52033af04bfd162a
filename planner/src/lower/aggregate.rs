//! GROUP BY and DISTINCT: keys, arguments and filters become plain columns of a `Map` below.

use super::expressions::{Physical, carried_type, cast_to, refuse_grouping_sets, type_of};
use super::query::{Lowering, unsupported};
use super::relation::{Relation, name_of};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::expr::AggregateFunction as LogicalCall;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, SortExpr};
use std::sync::Arc;
use thalweg_catalog::{SqlError, SqlResult};
use thalweg_plan::{AggregateCall, AggregateFunction, Exchange, NodeId, Operator};

/// An aggregate as it is written, checked.
struct Call<'a> {
    function: AggregateFunction,
    argument: Option<&'a Expr>,
    distinct: bool,
    filter: Option<&'a Expr>,
    /// The type that the optimiser has given to the result.
    result: &'a DataType,
    name: &'a str,
}

impl Lowering {
    /// A row for each group.
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate) -> SqlResult<Relation> {
        if aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
            return Err(refuse_grouping_sets());
        }
        if let Some(order) = first_value_order(&aggregate.aggr_expr) {
            return self.first_values(aggregate, order);
        }
        let results = &aggregate.schema.fields()[aggregate.group_expr.len()..];
        let calls = aggregate
            .aggr_expr
            .iter()
            .zip(results)
            .map(|(expr, field)| checked_call(expr, field))
            .collect::<SqlResult<Vec<_>>>()?;

        let key_count = aggregate.group_expr.len();
        let parts = calls.iter().flat_map(|c| c.argument.into_iter().chain(c.filter));
        let exprs: Vec<&Expr> = aggregate.group_expr.iter().chain(parts).collect();
        let input = self.lower(&aggregate.input)?;
        let (input, bound) = input.bind(&mut self.graph, &exprs, aggregate.input.schema(), false)?;
        let input_schema = Arc::clone(self.graph.schema(input.node));

        let mut below = Relation { columns: vec![], ..input };
        let mut bound = bound.into_iter();
        let mut keys = vec![];
        for (expr, bound) in aggregate.group_expr.iter().zip(bound.by_ref().take(key_count)) {
            let carried = carried_type(&type_of(&bound, &input_schema)?)?;
            keys.push(below.place_of(cast_to(bound, &input_schema, &carried)?, name_of(expr)));
        }
        let mut planned = vec![];
        for call in &calls {
            planned.push(call.plan(&mut below, &mut bound, &input_schema)?);
        }
        let below = below.sealed(&mut self.graph)?;
        let by_all = (0..self.graph.schema(below.node).fields().len()).all(|column| keys.contains(&column));
        let input = if by_all { self.combined(below.node)? } else { below.node };
        let (node, places) = self.add_aggregate(input, keys, planned);
        Ok(Relation::some_of(&self.graph, node, &places))
    }

    /// Adds the node. Gives also the place in its output of each key and call as they were asked for: a key that is asked
    /// for twice stands there once.
    fn add_aggregate(&mut self, input: NodeId, asked: Vec<usize>, calls: Vec<AggregateCall>) -> (NodeId, Vec<usize>) {
        let mut keys: Vec<usize> = vec![];
        let mut places = vec![];
        for key in asked {
            let place = keys.iter().position(|k| *k == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            places.push(place);
        }
        places.extend(keys.len()..keys.len() + calls.len());
        let input_schema = self.graph.schema(input);
        let mut fields: Vec<Field> = keys.iter().map(|k| input_schema.field(*k).clone()).collect();
        fields.extend(calls.iter().map(|c| Field::new(&c.name, c.output.clone(), true)));
        let exchange = if keys.is_empty() { Exchange::Single } else { Exchange::Hash(keys.clone()) };
        let operator = Operator::Aggregate { keys, calls, time_key: None, on_close: false };
        (self.graph.add(operator, vec![(input, exchange)], Arc::new(Schema::new(fields))), places)
    }

    /// The first row of each group, of which the aggregates are columns: what `DISTINCT ON` becomes.
    fn first_values(&mut self, aggregate: &Aggregate, order: &[SortExpr]) -> SqlResult<Relation> {
        let schema = aggregate.input.schema();
        let input = self.lower(&aggregate.input)?;
        let first = self.first_rows(input, schema, &aggregate.group_expr, order)?;
        let values = aggregate.aggr_expr.iter().filter_map(|e| match unaliased(e) {
            Expr::AggregateFunction(call) => call.params.args.first().cloned(),
            _ => None,
        });
        let exprs: Vec<Expr> = aggregate.group_expr.iter().cloned().chain(values).collect();
        first.project(&mut self.graph, &exprs, schema)
    }

    /// Every row once; with `ON`, the first row of each group.
    pub(super) fn distinct(&mut self, distinct: &Distinct) -> SqlResult<Relation> {
        match distinct {
            Distinct::All(input) => {
                let below = self.lower(input)?.carried(&self.graph)?.sealed(&mut self.graph)?;
                let keys = (0..self.graph.schema(below.node).fields().len()).collect();
                let (node, mut places) = self.add_aggregate(below.node, keys, vec![]);
                places.truncate(below.columns.len());
                Ok(Relation::some_of(&self.graph, node, &places))
            }
            Distinct::On(on) => {
                let input = self.lower(&on.input)?;
                let order = on.sort_expr.as_deref().unwrap_or(&[]);
                let first = self.first_rows(input, on.input.schema(), &on.on_expr, order)?;
                first.project(&mut self.graph, &on.select_expr, on.input.schema())
            }
        }
    }
}

/// The order in which all of the aggregates give the first value, if that is what they do.
fn first_value_order(exprs: &[Expr]) -> Option<&[SortExpr]> {
    let mut orders = exprs.iter().map(|e| match unaliased(e) {
        Expr::AggregateFunction(call)
            if call.func.name() == "first_value"
                && call.params.args.len() == 1
                && call.params.filter.is_none()
                && call.params.null_treatment.is_none() =>
        {
            Some(call.params.order_by.as_slice())
        }
        _ => None,
    });
    let first = orders.next()??;
    orders.all(|order| order == Some(first)).then_some(first)
}

fn checked_call<'a>(expr: &'a Expr, field: &'a Field) -> SqlResult<Call<'a>> {
    let call = match unaliased(expr) {
        Expr::AggregateFunction(call) => call,
        other => return Err(SqlError::internal(format!("{other} stands for an aggregate"))),
    };
    let function = function_of(call)?;
    let name = call.func.name();
    let argument = match call.params.args.as_slice() {
        // Counting a constant counts rows.
        [Expr::Literal(value, _)] if function == AggregateFunction::Count && !value.is_null() && !call.params.distinct => None,
        [] if function == AggregateFunction::Count => None,
        [argument] => Some(argument),
        _ => {
            return Err(unsupported(&format!("{name}() of several arguments"))
                .with_hint("Put the values together in one first, such as by ROW or ||."));
        }
    };
    // That a value counts once does not matter to the extremes, and state for it would be lost.
    let minds_repeats = matches!(function, AggregateFunction::Count | AggregateFunction::Sum | AggregateFunction::Avg);
    Ok(Call {
        function,
        argument,
        distinct: call.params.distinct && minds_repeats,
        filter: call.params.filter.as_deref(),
        result: field.data_type(),
        name: field.name(),
    })
}

fn function_of(call: &LogicalCall) -> SqlResult<AggregateFunction> {
    if call.params.null_treatment.is_some() {
        return Err(unsupported("an aggregate with IGNORE or RESPECT NULLS"));
    }
    Ok(match call.func.name() {
        "count" => AggregateFunction::Count,
        "sum" => AggregateFunction::Sum,
        "avg" => AggregateFunction::Avg,
        "min" => AggregateFunction::Min,
        "max" => AggregateFunction::Max,
        "bool_and" => AggregateFunction::BoolAnd,
        "bool_or" => AggregateFunction::BoolOr,
        "first_value" | "last_value" => {
            return Err(unsupported(&format!("{}() beside other aggregates", call.func.name()))
                .with_hint("Take the first row of each group in a subquery, by DISTINCT ON or by ROW_NUMBER() = 1."));
        }
        other => {
            return Err(unsupported(&format!("aggregate function {other}()"))
                .with_hint("Aggregates of views are count, sum, avg, min, max, bool_and and bool_or. Others can be read with SELECT over a view."));
        }
    })
}

impl Call<'_> {
    /// The call over columns of `below`, to which its argument and filter are added.
    fn plan(&self, below: &mut Relation, bound: &mut impl Iterator<Item = Physical>, input: &Schema) -> SqlResult<AggregateCall> {
        let mut output = DataType::Int64;
        let mut argument = None;
        if let Some(expr) = self.argument {
            let value = bound.next().ok_or_else(|| SqlError::internal("an aggregate's argument is not bound"))?;
            let (needed, result) = self.types(&type_of(&value, input)?)?;
            argument = Some(below.place_of(cast_to(value, input, &needed)?, name_of(expr)));
            output = result;
        }
        let mut filter = None;
        if let Some(expr) = self.filter {
            let value = bound.next().ok_or_else(|| SqlError::internal("an aggregate's filter is not bound"))?;
            // A NULL alone has no type of its own.
            filter = Some(below.place_of(cast_to(value, input, &DataType::Boolean)?, name_of(expr)));
        }
        let name = self.name.to_string();
        Ok(AggregateCall { function: self.function, argument, distinct: self.distinct, filter, output, name })
    }

    /// The type that an argument of type `argument` is cast to, and the type that the operator then gives.
    fn types(&self, argument: &DataType) -> SqlResult<(DataType, DataType)> {
        let carried = carried_type(argument)?;
        let wrong = || unsupported(&format!("{}() of values of type {carried}", self.function.name()));
        Ok(match self.function {
            AggregateFunction::Count => (carried, DataType::Int64),
            AggregateFunction::Min | AggregateFunction::Max => (carried.clone(), carried),
            AggregateFunction::BoolAnd | AggregateFunction::BoolOr => (DataType::Boolean, DataType::Boolean),
            AggregateFunction::Sum => {
                let sum = match self.result {
                    DataType::Int64 | DataType::UInt64 => DataType::Int64,
                    DataType::Float64 | DataType::Decimal128(..) => self.result.clone(),
                    _ => return Err(wrong()),
                };
                (sum.clone(), sum)
            }
            AggregateFunction::Avg => match (self.result, &carried) {
                (DataType::Float64, _) => (DataType::Float64, DataType::Float64),
                (DataType::Decimal128(..), DataType::Decimal128(..)) => (carried, self.result.clone()),
                _ => return Err(wrong()),
            },
        })
    }
}

/// The expression under its aliases.
fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}
