//! Point lookups: a query for one key of one table or materialized view. Its rows are read where they are kept, without a plan of
//! DataFusion's for each execution.

use crate::database::scan::KeptRelation;
use crate::wire::session::ResultColumn;
use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, ScalarValue};
use datafusion::datasource::DefaultTableSource;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, Operator, SkipType};
use thalweg_catalog::{CatalogObject, ObjectId, SqlType};

/// A query that gives the row of one key, if there is one.
pub struct PointLookup {
    /// What is read.
    pub relation: ObjectId,
    /// The place in the relation of each result column.
    pub columns: Vec<usize>,
    /// The columns of the result.
    pub results: Vec<ResultColumn>,
    /// The value of each column of the key, and the type that the column has.
    key: Vec<(Part, SqlType)>,
}

/// Where a part of the key comes from.
enum Part {
    Parameter(usize),
    Literal(ScalarValue),
}

impl PointLookup {
    /// The lookup that a bound plan is; none if it is more than that.
    pub fn of(plan: &LogicalPlan, results: &[ResultColumn]) -> Option<PointLookup> {
        let LogicalPlan::Projection(projection) = without_limit(plan)? else { return None };
        let LogicalPlan::Filter(filter) = projection.input.as_ref() else { return None };
        let object = relation_of(&filter.input)?;
        let columns = projection.expr.iter().map(|expr| place_of(expr, object)).collect::<Option<Vec<_>>>()?;
        let conditions = split_conjunction(&filter.predicate);
        if object.key().is_empty() || conditions.len() != object.key().len() || columns.len() != results.len() {
            return None;
        }
        let part = |place: &usize| {
            let found = conditions.iter().find_map(|condition| equal_to(condition, *place, object))?;
            let sql_type = &object.columns[*place].sql_type;
            is_plain(sql_type).then(|| (found, sql_type.clone()))
        };
        let key = object.key().iter().map(part).collect::<Option<Vec<_>>>()?;
        Some(PointLookup { relation: object.id, columns, results: results.to_vec(), key })
    }

    /// The key for these parameters, a value for each of its columns; none if one of them can't be compared as it is.
    pub fn key(&self, parameters: &[ScalarValue]) -> Option<Vec<ArrayRef>> {
        self.key.iter().map(|(part, sql_type)| part.value(parameters, sql_type)).collect()
    }
}

/// The one key of a table whose row a plan can be about, a value for each of its columns; none if it can be about others, or reads
/// anything else.
pub fn point_of(plan: &LogicalPlan, table: &CatalogObject, parameters: &[ScalarValue]) -> Option<Vec<ArrayRef>> {
    match plan {
        LogicalPlan::Projection(projection) if projection.expr.iter().all(is_plain_expr) => {
            point_of(&projection.input, table, parameters)
        }
        LogicalPlan::SubqueryAlias(alias) => point_of(&alias.input, table, parameters),
        LogicalPlan::Filter(filter) => {
            let object = relation_of(&filter.input)?;
            let conditions = split_conjunction(&filter.predicate);
            if object.id != table.id || table.key().is_empty() || !conditions.iter().all(|c| is_plain_expr(c)) {
                return None;
            }
            let value = |place: &usize| {
                let part = conditions.iter().find_map(|condition| equal_to(condition, *place, object))?;
                let sql_type = &object.columns[*place].sql_type;
                if is_plain(sql_type) { part.value(parameters, sql_type) } else { None }
            };
            table.key().iter().map(value).collect()
        }
        _ => None,
    }
}

/// Whether an expression reads no relation of its own.
fn is_plain_expr(expr: &Expr) -> bool {
    let is_query = |e: &Expr| Ok(matches!(e, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)));
    !expr.exists(is_query).unwrap_or(true)
}

impl Part {
    /// Its value, as a column of this type keeps it.
    fn value(&self, parameters: &[ScalarValue], sql_type: &SqlType) -> Option<ArrayRef> {
        let value = match self {
            Part::Parameter(place) => parameters.get(*place)?,
            Part::Literal(value) => value,
        };
        as_column(value, sql_type)?.to_array().ok()
    }
}

/// What a limit of at least one row is on: a key has no more.
fn without_limit(plan: &LogicalPlan) -> Option<&LogicalPlan> {
    let LogicalPlan::Limit(limit) = plan else { return Some(plan) };
    let is_harmless = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(1..))));
    is_harmless.then_some(limit.input.as_ref())
}

/// The one relation that a plan reads as it is.
fn relation_of(plan: &LogicalPlan) -> Option<&CatalogObject> {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => relation_of(&alias.input),
        LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => {
            let provider = &scan.source.as_any().downcast_ref::<DefaultTableSource>()?.table_provider;
            provider.as_any().downcast_ref::<KeptRelation>().map(KeptRelation::object)
        }
        _ => None,
    }
}

fn place_of(expr: &Expr, object: &CatalogObject) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => place_of(&alias.expr, object),
        Expr::Column(Column { name, .. }) => object.columns.iter().position(|column| column.name == *name),
        _ => None,
    }
}

/// What a condition says that a column is equal to.
fn equal_to(condition: &Expr, place: usize, object: &CatalogObject) -> Option<Part> {
    let Expr::BinaryExpr(binary) = condition else { return None };
    if binary.op != Operator::Eq {
        return None;
    }
    // Drivers send small numbers as small types: `id = $1` is then a comparison of one of both cast to the other's type. Whether the value is
    // one of the column's is seen when it is there.
    let (left, right) = (without_cast(&binary.left, object), without_cast(&binary.right, object));
    let (value, column) = match (left, right) {
        (column @ Expr::Column(_), value) | (value, column @ Expr::Column(_)) => (value, column),
        _ => return None,
    };
    if place_of(column, object)? != place {
        return None;
    }
    match value {
        Expr::Placeholder(placeholder) => {
            let number: usize = placeholder.id.strip_prefix('$')?.parse().ok()?;
            Some(Part::Parameter(number.checked_sub(1)?))
        }
        Expr::Literal(value, _) => Some(Part::Literal(value.clone())),
        _ => None,
    }
}

/// What is cast to an integer, if something is and a column not to a smaller one.
fn without_cast<'a>(expr: &'a Expr, object: &CatalogObject) -> &'a Expr {
    let Expr::Cast(cast) = expr else { return expr };
    let narrows = |column: &Expr| {
        let of = place_of(column, object).map(|place| object.columns[place].sql_type.to_arrow());
        of.is_some_and(|of| of.primitive_width() >= cast.data_type.primitive_width())
    };
    if cast.data_type.is_integer() && !narrows(&cast.expr) { &cast.expr } else { expr }
}

/// Whether values of the type are equal just when they are kept alike.
fn is_plain(sql_type: &SqlType) -> bool {
    use SqlType as T;
    matches!(
        sql_type,
        T::Boolean | T::Int2 | T::Int4 | T::Int8 | T::Text | T::Varchar(_) | T::Date | T::Timestamp | T::TimestampTz | T::Bytea
    )
}

/// A value as the column keeps it; none if that is another one, or NULL.
fn as_column(value: &ScalarValue, sql_type: &SqlType) -> Option<ScalarValue> {
    let wanted = sql_type.to_arrow();
    if value.is_null() {
        return None;
    }
    if value.data_type() == wanted {
        return Some(value.clone());
    }
    if !(value.data_type().is_integer() && wanted.is_integer()) {
        return None;
    }
    let cast = value.cast_to(&wanted).ok().filter(|cast| !cast.is_null())?;
    (cast.cast_to(&value.data_type()).ok()? == *value).then_some(cast)
}

/// The row of a key among the shares of all workers; an empty batch if there is none.
///
/// # Errors
/// If the state can't be read.
pub fn read(
    holds: &[thalweg_storage::state::ViewHold],
    key: &[ArrayRef],
    columns: &[usize],
) -> thalweg_storage::StorageResult<Option<RecordBatch>> {
    let mut found = None;
    for hold in holds {
        let batch = hold.get(key, columns)?;
        if batch.num_rows() > 0 {
            return Ok(Some(batch));
        }
        found = Some(batch);
    }
    Ok(found)
}
