//! What a name in `FROM` stands for: where DataFusion finds the rows, or only the columns, of a relation.

use arrow::datatypes::SchemaRef;
use datafusion::common::{Constraint, Constraints};
use datafusion::logical_expr::{LogicalPlan, TableSource, TableType};
use datafusion::sql::sqlparser::ast;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use thalweg_catalog::{CatalogObject, ObjectId, SqlResult};

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

    /// What of an object may be read: by the query itself, or by `view`, in whose query it is named. Everything, unless
    /// whoever asks has a user to check.
    ///
    /// # Errors
    /// `42501` if nothing of it may be.
    fn rights(&self, _object: &Arc<CatalogObject>, _view: Option<ObjectId>) -> SqlResult<ReadRights> {
        Ok(ReadRights::default())
    }

    /// Refuses a call of a function.
    ///
    /// # Errors
    /// `42501`.
    fn check_function(&self, _name: &str) -> SqlResult<()> {
        Ok(())
    }
}

/// What of an object may be read.
#[derive(Clone, Debug, Default)]
pub struct ReadRights {
    /// The columns that may not be, by their places.
    pub denied: Vec<usize>,
    /// The condition on the rows that are seen; none for all rows.
    pub rows: Option<ast::Expr>,
}

impl ReadRights {
    /// Whether all of it may be read.
    pub fn is_everything(&self) -> bool {
        self.denied.is_empty() && self.rows.is_none()
    }
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

/// The columns of catalog objects, with the rights that another source knows of.
pub(crate) struct CheckedStreams<'a>(pub(crate) &'a dyn RelationSource);

impl RelationSource for CheckedStreams<'_> {
    fn relation(&self, object: &Arc<CatalogObject>) -> SqlResult<Arc<dyn TableSource>> {
        StreamRelations.relation(object)
    }

    fn system_relation(&self, schema: &str, name: &str) -> SqlResult<Option<Arc<dyn TableSource>>> {
        StreamRelations.system_relation(schema, name)
    }

    fn rights(&self, object: &Arc<CatalogObject>, view: Option<ObjectId>) -> SqlResult<ReadRights> {
        self.0.rights(object, view)
    }

    fn check_function(&self, name: &str) -> SqlResult<()> {
        self.0.check_function(name)
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
