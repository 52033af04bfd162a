//! Types of integer literals and of aggregates, as in Postgres.
//!
//! A whole number that fits is an integer, not a bigint. `sum(bigint)` is numeric; the average of integers or numerics is a
//! numeric with 16 digits behind the point. The arguments are cast so that DataFusion's own aggregates come out so.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Union, WindowFunctionDefinition};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::operators;

/// Digits behind the point of what is averaged; DataFusion's average adds four.
const AVERAGED_SCALE: i8 = 12;

/// The most digits that DataFusion's average leaves room for.
const AVERAGED_PRECISION_MAX: u8 = 34;

/// Functions whose result has the type of their arguments, so that a literal's type matters.
const TYPED_BY_ARGUMENTS: [&str; 11] =
    ["coalesce", "nullif", "greatest", "least", "nvl", "nvl2", "make_array", "struct", "abs", "pg_typeof", "series"];

/// Aggregates whose result's type follows from the argument's.
const TYPED_AGGREGATES: [&str; 7] = ["sum", "avg", "min", "max", "first_value", "last_value", "array_agg"];

#[derive(Debug)]
pub(super) struct PostgresNumbers;

impl AnalyzerRule for PostgresNumbers {
    fn name(&self) -> &str {
        "postgres_numbers"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        // The working table of a recursive query has its type already, so literals must keep theirs.
        let narrow = !plan.exists(|node| Ok(matches!(node, LogicalPlan::RecursiveQuery(_))))?;
        Ok(plan.transform_up_with_subqueries(|node| rewrite(node, narrow))?.data)
    }
}

fn rewrite(node: LogicalPlan, narrow: bool) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Limit(_) | LogicalPlan::RecursiveQuery(_) => Ok(Transformed::no(node)),
        LogicalPlan::Values(values) if narrow => {
            let rows = values.values.into_iter().map(narrow_row).collect::<Result<Vec<_>>>()?;
            let named = LogicalPlanBuilder::values(rows)?.build()?;
            Ok(Transformed::yes(named))
        }
        // A union's types must be known above it before DataFusion's own coercion comes by.
        LogicalPlan::Union(union) => {
            let union = operators::typed_literals(union)?;
            operators::check_union(&union)?;
            let schema = typed_as_first(&union)?;
            TypeCoercionRewriter::coerce_union(Union { schema, ..union }).map(Transformed::yes)
        }
        node => {
            let schema = merge_schema(&node.inputs());
            if let LogicalPlan::Join(join) = &node {
                for (left, right) in &join.on {
                    operators::check_keys((left, join.left.schema()), (right, join.right.schema()))?;
                }
            }
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = if narrow { narrow_literals(expr)?.data } else { expr };
                let expr =
                    expr.transform_up(|expr| operators::rewrite(expr, &schema)?.transform_data(|e| aggregate(e, &schema)))?;
                Ok(Transformed::yes(name.restore(expr.data)))
            })?
            .map_data(|node| node.recompute_schema())
        }
    }
}

/// A union's schema with the types of its first input, from which the coercion to all inputs starts.
fn typed_as_first(union: &Union) -> Result<DFSchemaRef> {
    let first = union.inputs[0].schema();
    let typed = union.schema.iter().zip(first.fields()).map(|((qualifier, field), typed)| {
        let field = field.as_ref().clone().with_data_type(typed.data_type().clone()).with_nullable(typed.is_nullable());
        (qualifier.cloned(), Arc::new(field))
    });
    Ok(Arc::new(DFSchema::new_with_metadata(typed.collect(), union.schema.metadata().clone())?))
}

fn narrow_row(row: Vec<Expr>) -> Result<Vec<Expr>> {
    row.into_iter().map(|expr| narrow_literals(expr).map(|t| t.data)).collect()
}

/// Bigint literals that fit into an integer as integers, but for those that functions expect as they are.
fn narrow_literals(expr: Expr) -> Result<Transformed<Expr>> {
    if let Some(narrow) = narrowed(&expr) {
        return Ok(Transformed::yes(narrow));
    }
    let keeps_literals = match &expr {
        Expr::Cast(_) | Expr::TryCast(_) => true,
        Expr::ScalarFunction(function) => !TYPED_BY_ARGUMENTS.contains(&function.name()),
        Expr::AggregateFunction(aggregate) => !TYPED_AGGREGATES.contains(&aggregate.func.name()),
        Expr::WindowFunction(window) => !TYPED_AGGREGATES.contains(&window.fun.name()),
        _ => false,
    };
    expr.map_children(|child| {
        if keeps_literals && matches!(child, Expr::Literal(..)) { Ok(Transformed::no(child)) } else { narrow_literals(child) }
    })
}

fn narrowed(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => {
            let value = i32::try_from(*value).ok()?;
            Some(Expr::Literal(ScalarValue::Int32(Some(value)), metadata.clone()))
        }
        _ => None,
    }
}

/// An aggregate without the names that casts had while it was bound, and a sum or average with its argument cast, so that its
/// result has Postgres's type.
fn aggregate(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
            let mut changed = false;
            for part in params.args.iter_mut().chain(params.filter.as_deref_mut()) {
                let plain = std::mem::replace(part, Expr::Literal(ScalarValue::Null, None)).unalias_nested();
                changed |= plain.transformed;
                *part = plain.data;
            }
            changed |= cast_argument(func.name(), &mut params.args, schema);
            Ok(Transformed::new(
                Expr::AggregateFunction(AggregateFunction { func, params }),
                changed,
                TreeNodeRecursion::Continue,
            ))
        }
        Expr::WindowFunction(mut window) => {
            let WindowFunction { fun, params } = window.as_mut();
            let changed = match fun {
                WindowFunctionDefinition::AggregateUDF(func) => cast_argument(func.name(), &mut params.args, schema),
                WindowFunctionDefinition::WindowUDF(_) => false,
            };
            Ok(Transformed::new(Expr::WindowFunction(window), changed, TreeNodeRecursion::Continue))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn cast_argument(function: &str, args: &mut [Expr], schema: &DFSchema) -> bool {
    // An argument without a type yet, such as a parameter, gets one from DataFusion's coercion.
    let [argument] = args else { return false };
    let Ok(found) = argument.get_type(schema) else { return false };
    let Some(wanted) = argument_type(function, &found) else { return false };
    let inner = std::mem::replace(argument, Expr::Literal(ScalarValue::Null, None));
    *argument = Expr::Cast(Cast::new(Box::new(inner), wanted));
    true
}

/// What the argument of a sum or average is cast to; none if it can stay.
fn argument_type(function: &str, found: &DataType) -> Option<DataType> {
    match (function, found) {
        ("sum", DataType::Int64 | DataType::UInt64) => Some(DataType::Decimal128(38, 0)),
        ("avg", found) if found.is_integer() => Some(DataType::Decimal128(32, AVERAGED_SCALE)),
        ("avg", DataType::Decimal128(precision, scale)) if (0..AVERAGED_SCALE).contains(scale) => {
            let wider = precision + (AVERAGED_SCALE - scale) as u8;
            (wider <= AVERAGED_PRECISION_MAX).then_some(DataType::Decimal128(wider, AVERAGED_SCALE))
        }
        _ => None,
    }
}
