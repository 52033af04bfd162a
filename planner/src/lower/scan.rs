//! Scans: a source with its watermark, or the rows of a table or materialized view.
//!
//! Where a plan reads one object several times, every scan reads all columns that any of them needs: then the scans are
//! equal nodes and become one, and a row is read and decoded once.

use super::expressions::from_datafusion;
use super::query::{Lowering, refuse_recursion};
use super::relation::Relation;
use crate::relation::object_of;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_catalog::object::{CatalogObject, ObjectKind, WatermarkSpec};
use thalweg_catalog::{ObjectId, SqlError, SqlResult};
use thalweg_plan::{Exchange, NodeId, Operator};

/// The columns of each object that any scan of a plan needs.
pub(super) type Needed = BTreeMap<ObjectId, BTreeSet<usize>>;

/// Collects what the plan's scans need.
pub(super) fn needed_columns(plan: &LogicalPlan) -> SqlResult<Needed> {
    let mut needed = Needed::new();
    let mut failure = None;
    plan.apply(|node| {
        // Refused before the scan of its working table is: that would tell the user of a relation they never named.
        if let LogicalPlan::RecursiveQuery(recursive) = node {
            failure = Some(refuse_recursion(recursive));
            return Ok(TreeNodeRecursion::Stop);
        }
        if let LogicalPlan::TableScan(scan) = node {
            match scanned(scan).and_then(|object| Ok((object.id, scan_columns(scan, object)?))) {
                Ok((id, columns)) => needed.entry(id).or_default().extend(columns),
                Err(error) => failure = Some(error),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    failure.map_or(Ok(needed), Err)
}

/// The object that a scan reads.
pub(crate) fn scanned(scan: &TableScan) -> SqlResult<&Arc<CatalogObject>> {
    object_of(scan.source.as_ref()).ok_or_else(|| {
        SqlError::unsupported(format!("relation \"{}\" can't be followed", scan.table_name.table()))
            .with_hint("Read it with SELECT: it is computed when it is read.")
    })
}

/// The declared columns that a scan reads: those that it gives, and those that its filters look at.
fn scan_columns(scan: &TableScan, object: &CatalogObject) -> SqlResult<BTreeSet<usize>> {
    let mut columns: BTreeSet<usize> = output_columns(scan, object).into_iter().collect();
    for filter in &scan.filters {
        for column in filter.column_refs() {
            let place = object.columns.iter().position(|c| c.name == column.name);
            columns.insert(place.ok_or_else(|| SqlError::internal(format!("filter on unknown column \"{}\"", column.name)))?);
        }
    }
    // The watermark is made from the rows, so its column is always read. A batch needs some column to have a length.
    columns.extend(object.watermark().map(|w| w.column));
    if columns.is_empty() {
        columns.insert(narrowest(object));
    }
    Ok(columns)
}

fn output_columns(scan: &TableScan, object: &CatalogObject) -> Vec<usize> {
    scan.projection.clone().unwrap_or_else(|| (0..object.columns.len()).collect())
}

/// The column that costs least to read.
fn narrowest(object: &CatalogObject) -> usize {
    let width = |c: usize| object.columns[c].sql_type.to_arrow().primitive_width().unwrap_or(usize::MAX);
    (0..object.columns.len()).min_by_key(|c| width(*c)).unwrap_or(0)
}

impl Lowering {
    /// The rows of a scan.
    pub(super) fn scan(&mut self, scan: &TableScan) -> SqlResult<Relation> {
        let object = Arc::clone(scanned(scan)?);
        let read: Vec<usize> = self.needed.get(&object.id).into_iter().flatten().copied().collect();
        let declared = object.arrow_schema();
        let schema = Arc::new(Schema::new(read.iter().map(|c| declared.field(*c).clone()).collect::<Vec<_>>()));
        let node = match object.kind() {
            ObjectKind::Source => self.source(&object, read.clone(), Arc::clone(&schema)),
            ObjectKind::Table | ObjectKind::MaterializedView => {
                let operator = Operator::Relation { object: object.id, columns: read.clone() };
                self.graph.add(operator, vec![], Arc::clone(&schema))
            }
            ObjectKind::View | ObjectKind::Sink | ObjectKind::Type => {
                return Err(SqlError::internal(format!("{} \"{}\" is scanned", object.kind(), object.name)));
            }
        };
        let mut relation = Relation::of(&self.graph, node);
        if !scan.filters.is_empty() {
            let logical = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &schema).map_err(from_datafusion)?;
            relation = relation.filter(&mut self.graph, &scan.filters.iter().collect::<Vec<&Expr>>(), &logical)?;
        }
        let mut columns = vec![];
        for wanted in output_columns(scan, &object) {
            let place = read.iter().position(|c| *c == wanted);
            let place = place.ok_or_else(|| SqlError::internal(format!("column {wanted} of \"{}\" is not read", object.name)))?;
            columns.push(relation.columns[place].clone());
        }
        Ok(Relation { columns, ..relation })
    }

    fn source(&mut self, object: &CatalogObject, read: Vec<usize>, schema: SchemaRef) -> NodeId {
        let watermark = object.watermark().map(|spec| in_read_columns(spec, &read));
        let source = self.graph.add(Operator::Source { object: object.id, columns: read }, vec![], Arc::clone(&schema));
        match watermark {
            Some(spec) => self.graph.add(Operator::WatermarkFilter { spec }, vec![(source, Exchange::Local)], schema),
            None => source,
        }
    }
}

/// The watermark with its column counted in the columns that are read, among which it always is.
fn in_read_columns(spec: &WatermarkSpec, read: &[usize]) -> WatermarkSpec {
    let column = read.iter().position(|c| *c == spec.column).unwrap_or(spec.column);
    WatermarkSpec { column, ..spec.clone() }
}
