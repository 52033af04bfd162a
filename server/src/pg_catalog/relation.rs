//! System relations: their columns in a line of text, their rows made when they are read.

use super::snapshot::SystemSnapshot;
use crate::wire::session::OID_METADATA;
use arrow::array::{
    ArrayRef, BooleanBuilder, Float32Builder, Int16Builder, Int32Builder, Int64Builder, ListBuilder, RecordBatch,
    RecordBatchOptions, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// The types of columns that system relations have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Bool,
    Char,
    Name,
    Text,
    Int2,
    Int4,
    Int8,
    Float4,
    Oid,
    Xid,
    Timestamp,
    NodeTree,
    TextArray,
    CharArray,
    NameArray,
    OidArray,
    Int2Array,
    Int2Vector,
    OidVector,
    Acl,
    Void,
    /// A type whose values are shown by name and are OIDs in binary: the digits of the OID, a blank and the name.
    Named(u32),
}

impl Kind {
    fn parse(text: &str) -> Kind {
        match text {
            "bool" => Kind::Bool,
            "char" => Kind::Char,
            "name" => Kind::Name,
            // Functions are shown by name, as regproc shows them.
            "text" | "regproc" => Kind::Text,
            "int2" => Kind::Int2,
            "int4" => Kind::Int4,
            "int8" => Kind::Int8,
            "float4" => Kind::Float4,
            "oid" => Kind::Oid,
            "xid" => Kind::Xid,
            "timestamptz" => Kind::Timestamp,
            "pg_node_tree" => Kind::NodeTree,
            "text[]" => Kind::TextArray,
            "char[]" => Kind::CharArray,
            "name[]" => Kind::NameArray,
            "oid[]" => Kind::OidArray,
            "int2[]" => Kind::Int2Array,
            "int2vector" => Kind::Int2Vector,
            "oidvector" => Kind::OidVector,
            "aclitem[]" => Kind::Acl,
            other => panic!("CATALOG-2: a system relation has a column of the type {other}, which is not known"),
        }
    }

    /// The OID of the type.
    pub fn type_oid(self) -> u32 {
        match self {
            Kind::Bool => 16,
            Kind::Char => 18,
            Kind::Name => 19,
            Kind::Text => 25,
            Kind::Int2 => 21,
            Kind::Int4 => 23,
            Kind::Int8 => 20,
            Kind::Float4 => 700,
            Kind::Oid => 26,
            Kind::Xid => 28,
            Kind::Timestamp => 1184,
            Kind::NodeTree => 194,
            Kind::TextArray => 1009,
            Kind::CharArray => 1002,
            Kind::NameArray => 1003,
            Kind::OidArray => 1028,
            Kind::Int2Array => 1005,
            Kind::Int2Vector => 22,
            Kind::OidVector => 30,
            Kind::Acl => 1034,
            Kind::Void => 2278,
            Kind::Named(oid) => oid,
        }
    }

    /// The Arrow type that carries it.
    pub fn arrow(self) -> DataType {
        let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
        match self {
            Kind::Bool => DataType::Boolean,
            Kind::Char | Kind::Name | Kind::Text | Kind::NodeTree | Kind::Void | Kind::Named(_) => DataType::Utf8,
            Kind::Int2 => DataType::Int16,
            Kind::Int4 | Kind::Oid | Kind::Xid => DataType::Int32,
            Kind::Int8 => DataType::Int64,
            Kind::Float4 => DataType::Float32,
            Kind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
            Kind::TextArray | Kind::CharArray | Kind::NameArray | Kind::Acl => list(DataType::Utf8),
            Kind::OidArray | Kind::OidVector => list(DataType::Int32),
            Kind::Int2Array | Kind::Int2Vector => list(DataType::Int16),
        }
    }

    /// A field of this type.
    pub fn field(self, name: &str) -> Field {
        Field::new(name, self.arrow(), true)
            .with_metadata(HashMap::from([(OID_METADATA.to_string(), self.type_oid().to_string())]))
    }
}

/// A value of a system relation.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Cell {
    Null,
    Bool(bool),
    Int(i64),
    Float(f32),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i64>),
}

impl From<bool> for Cell {
    fn from(value: bool) -> Cell {
        Cell::Bool(value)
    }
}

macro_rules! cell_from_integers {
    ($($integer:ty),*) => {
        $(impl From<$integer> for Cell {
            fn from(value: $integer) -> Cell {
                Cell::Int(i64::from(value))
            }
        })*
    };
}

cell_from_integers!(i16, i32, i64, u32);

impl From<f32> for Cell {
    fn from(value: f32) -> Cell {
        Cell::Float(value)
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Cell {
        Cell::Int(value as i64)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Cell {
        Cell::Text(value.to_string())
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Cell {
        Cell::Text(value)
    }
}

impl From<char> for Cell {
    fn from(value: char) -> Cell {
        Cell::Text(value.to_string())
    }
}

impl From<Vec<String>> for Cell {
    fn from(value: Vec<String>) -> Cell {
        Cell::Texts(value)
    }
}

impl From<Vec<i64>> for Cell {
    fn from(value: Vec<i64>) -> Cell {
        Cell::Ints(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// A column of a system relation.
#[derive(Clone, Debug)]
pub struct SystemColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    default: Cell,
}

/// A row as far as it is not of defaults.
pub type Row = Vec<(&'static str, Cell)>;

/// A system relation: how it is called, what it has, how its rows are made.
pub struct Relation {
    /// Its name.
    pub name: &'static str,
    /// Its OID.
    pub oid: u32,
    /// `name type=default, …`; without a default a column is NULL where a row does not set it.
    pub columns: &'static str,
    /// Its rows; none for a relation that never has any.
    pub rows: Option<fn(&SystemSnapshot) -> Vec<Row>>,
    /// Whether clients know it as a view.
    pub is_view: bool,
}

impl Relation {
    /// Its columns, in order.
    pub fn columns(&self) -> Vec<SystemColumn> {
        let parse = |text: &'static str| {
            let (name, rest) = text.trim().split_once(' ').expect("CATALOG-2: every column has a name and a type");
            let (kind, default) = match rest.split_once('=') {
                Some((kind, default)) => (Kind::parse(kind), Some(default)),
                None => (Kind::parse(rest), None),
            };
            SystemColumn { name, kind, default: default.map_or(Cell::Null, |text| default_cell(kind, text)) }
        };
        self.columns.split(',').map(parse).collect()
    }
}

fn default_cell(kind: Kind, text: &str) -> Cell {
    match kind {
        Kind::Bool => Cell::Bool(text == "t"),
        Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Oid | Kind::Xid | Kind::Float4 => {
            Cell::Int(text.parse().expect("CATALOG-2: the default of a number is a number"))
        }
        _ => Cell::Text(text.to_string()),
    }
}

/// The Arrow schema of these columns.
pub fn schema_of(columns: &[SystemColumn]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| column.kind.field(column.name)).collect::<Vec<_>>()))
}

fn integer(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Int(value) => Some(*value),
        _ => None,
    }
}

fn text(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(value) => Some(value),
        _ => None,
    }
}

/// An array of the cells of one column. Cells of another type are NULL.
pub fn array_of(kind: Kind, cells: &[Cell]) -> ArrayRef {
    match kind.arrow() {
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            cells.iter().for_each(|c| builder.append_option(if let Cell::Bool(b) = c { Some(*b) } else { None }));
            Arc::new(builder.finish())
        }
        DataType::Int16 => {
            let mut builder = Int16Builder::new();
            cells.iter().for_each(|c| builder.append_option(integer(c).map(|v| v as i16)));
            Arc::new(builder.finish())
        }
        DataType::Int32 => {
            let mut builder = Int32Builder::new();
            cells.iter().for_each(|c| builder.append_option(integer(c).map(|v| v as i32)));
            Arc::new(builder.finish())
        }
        DataType::Int64 => {
            let mut builder = Int64Builder::new();
            cells.iter().for_each(|c| builder.append_option(integer(c)));
            Arc::new(builder.finish())
        }
        DataType::Float32 => {
            let mut builder = Float32Builder::new();
            let float = |c: &Cell| if let Cell::Float(value) = c { Some(*value) } else { integer(c).map(|v| v as f32) };
            cells.iter().for_each(|c| builder.append_option(float(c)));
            Arc::new(builder.finish())
        }
        DataType::Timestamp(..) => {
            let mut builder = TimestampMicrosecondBuilder::new().with_data_type(kind.arrow());
            cells.iter().for_each(|c| builder.append_option(integer(c)));
            Arc::new(builder.finish())
        }
        DataType::List(_) => list_of(kind, cells),
        _ => {
            let mut builder = StringBuilder::new();
            cells.iter().for_each(|c| builder.append_option(text(c)));
            Arc::new(builder.finish())
        }
    }
}

fn list_of(kind: Kind, cells: &[Cell]) -> ArrayRef {
    match kind {
        Kind::Int2Array | Kind::Int2Vector => {
            let mut builder = ListBuilder::new(Int16Builder::new());
            for cell in cells {
                match cell {
                    Cell::Ints(values) => builder.append_value(values.iter().map(|v| Some(*v as i16))),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        Kind::OidArray | Kind::OidVector => {
            let mut builder = ListBuilder::new(Int32Builder::new());
            for cell in cells {
                match cell {
                    Cell::Ints(values) => builder.append_value(values.iter().map(|v| Some(*v as i32))),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for cell in cells {
                match cell {
                    Cell::Texts(values) => builder.append_value(values.iter().map(Some)),
                    _ => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}

/// The rows as one batch.
///
/// # Panics
/// CATALOG-2: if a row sets a column that the relation does not have.
pub fn batch_of(columns: &[SystemColumn], rows: &[Row]) -> RecordBatch {
    let places: HashMap<&str, usize> = columns.iter().enumerate().map(|(at, column)| (column.name, at)).collect();
    let mut cells: Vec<Vec<Cell>> = columns.iter().map(|column| vec![column.default.clone(); rows.len()]).collect();
    for (at, row) in rows.iter().enumerate() {
        for (name, cell) in row {
            let place = places.get(name).unwrap_or_else(|| panic!("CATALOG-2: no system column {name}"));
            cells[*place][at] = cell.clone();
        }
    }
    let arrays = columns.iter().zip(&cells).map(|(column, cells)| array_of(column.kind, cells)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema_of(columns), arrays, &options)
        .expect("CATALOG-2: arrays are built by their columns' types")
}

/// The relations of one system schema, for one statement.
pub struct SystemSchema {
    snapshot: Arc<SystemSnapshot>,
    relations: &'static [&'static [Relation]],
}

impl SystemSchema {
    /// The relations of these groups.
    pub fn new(snapshot: Arc<SystemSnapshot>, relations: &'static [&'static [Relation]]) -> SystemSchema {
        SystemSchema { snapshot, relations }
    }

    fn find(&self, name: &str) -> Option<&'static Relation> {
        self.relations.iter().copied().flatten().find(|relation| relation.name == name)
    }

    /// The relation of this name.
    pub fn table_now(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let relation = self.find(name)?;
        let columns = relation.columns();
        let schema = schema_of(&columns);
        Some(Arc::new(SystemTable { schema, columns, relation, snapshot: Arc::clone(&self.snapshot) }))
    }
}

impl std::fmt::Debug for SystemSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SystemSchema")
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn table_names(&self) -> Vec<String> {
        self.relations.iter().copied().flatten().map(|relation| relation.name.to_string()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.table_now(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
}

/// A system relation for one statement.
struct SystemTable {
    relation: &'static Relation,
    columns: Vec<SystemColumn>,
    schema: SchemaRef,
    snapshot: Arc<SystemSnapshot>,
}

impl std::fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SystemTable({})", self.relation.name)
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        if self.relation.is_view { TableType::View } else { TableType::Base }
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        let rows = self.relation.rows.map(|rows| rows(&self.snapshot)).unwrap_or_default();
        let batch = batch_of(&self.columns, &rows);
        let source = MemorySourceConfig::try_new_exec(&[vec![batch]], Arc::clone(&self.schema), projection.cloned())?;
        Ok(source)
    }
}
