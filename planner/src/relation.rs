//! What a name in `FROM` stands for: where DataFusion finds the rows, or only the columns, of a relation.

use arrow::datatypes::SchemaRef;
use datafusion::common::{Constraint, Constraints};
use datafusion::logical_expr::{LogicalPlan, TableSource, TableType};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, SqlResult};

/// Gives the relations that a query may read.
pub trait RelationSource {
    /// What stands for a source, table or materialized view.
    ///
    /// # Errors
    /// Whatever keeps it from being read, such as `0A000` for a sink.
    fn relation(&self, object: &Arc<CatalogObject>) -> SqlResult<Arc<dyn TableSource>>;

    /// What stands for a relation of the system's own, such as `pg_catalog.pg_class`; none if there is no such one.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn system_relation(&self, schema: &str, name: &str) -> SqlResult<Option<Arc<dyn TableSource>>>;
}

/// The columns of catalog objects alone, for queries that are to become streaming plans.
pub struct StreamRelations;

impl RelationSource for StreamRelations {
    fn relation(&self, object: &Arc<CatalogObject>) -> SqlResult<Arc<dyn TableSource>> {
        Ok(Arc::new(RelationTable::new(Arc::clone(object))))
    }

    fn system_relation(&self, _schema: &str, _name: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
        Ok(None)
    }
}

/// A catalog object in a plan: its columns and its key, no rows.
#[derive(Debug)]
pub struct RelationTable {
    object: Arc<CatalogObject>,
    schema: SchemaRef,
    constraints: Constraints,
}

impl RelationTable {
    /// The table that stands for `object`.
    pub fn new(object: Arc<CatalogObject>) -> RelationTable {
        RelationTable { schema: object.arrow_schema(), constraints: key_constraints(&object), object }
    }

    /// The object that it stands for.
    pub fn object(&self) -> &Arc<CatalogObject> {
        &self.object
    }
}

/// The key of a kept relation as DataFusion wants to know it: what follows from a group's key need not be grouped by.
pub fn key_constraints(object: &CatalogObject) -> Constraints {
    match object.key() {
        key if object.is_kept() && !key.is_empty() => Constraints::new_unverified(vec![Constraint::PrimaryKey(key.to_vec())]),
        _ => Constraints::default(),
    }
}

impl TableSource for RelationTable {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }
}

/// The catalog object that a scan in a streaming plan reads.
pub fn object_of(source: &dyn TableSource) -> Option<&Arc<CatalogObject>> {
    source.as_any().downcast_ref::<RelationTable>().map(RelationTable::object)
}

/// A view in a plan: its query stands in for it.
pub(crate) struct InlinedView {
    plan: LogicalPlan,
    schema: SchemaRef,
}

impl InlinedView {
    pub(crate) fn new(plan: LogicalPlan) -> InlinedView {
        let schema = Arc::clone(plan.schema().inner());
        InlinedView { plan, schema }
    }
}

impl TableSource for InlinedView {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_logical_plan(&'_ self) -> Option<Cow<'_, LogicalPlan>> {
        Some(Cow::Borrowed(&self.plan))
    }
}
