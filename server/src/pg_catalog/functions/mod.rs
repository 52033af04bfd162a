//! The functions of `pg_catalog`: evaluated row by row over one snapshot, as they look things up more than they compute.

pub mod arrays;
pub mod definitions;
pub mod lookup;
pub mod privileges;
pub mod session;
pub mod sleep;
pub mod text;

use super::relation::{Cell, Kind, array_of};
use super::snapshot::SystemSnapshot;
use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::error::{DataFusionError, Result as DataFusionResult};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;
use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use thalweg_catalog::SqlResult;

/// How a function computes a value from its arguments.
pub type Evaluate = fn(&SystemSnapshot, &[Cell]) -> SqlResult<Cell>;

/// A function of `pg_catalog`.
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The type of its result.
    pub kind: Kind,
    /// Whether a NULL among the arguments gives NULL without a call.
    pub strict: bool,
    /// What it computes.
    pub evaluate: Evaluate,
}

/// A strict function.
pub const fn strict(name: &'static str, kind: Kind, evaluate: Evaluate) -> Function {
    Function { name, kind, strict: true, evaluate }
}

/// A function that is called with NULLs too.
pub const fn lenient(name: &'static str, kind: Kind, evaluate: Evaluate) -> Function {
    Function { name, kind, strict: false, evaluate }
}

/// All functions by group.
pub static FUNCTIONS: &[&[Function]] = &[lookup::FUNCTIONS, session::FUNCTIONS, privileges::FUNCTIONS, text::FUNCTIONS];

/// The functions over one snapshot, to be registered.
pub fn functions(snapshot: &Arc<SystemSnapshot>) -> Vec<ScalarUDF> {
    let rowwise = FUNCTIONS.iter().copied().flatten().map(|function| {
        let signature = Signature::one_of(
            vec![datafusion::logical_expr::TypeSignature::Nullary, datafusion::logical_expr::TypeSignature::VariadicAny],
            volatility(function.name),
        );
        ScalarUDF::from(SystemFunction { function, snapshot: Arc::clone(snapshot), signature })
    });
    rowwise.chain(arrays::functions()).chain([sleep::function()]).collect()
}

/// Whether there is a function of this name.
pub fn exists(planner: &thalweg_planner::LogicalPlanner, name: &str) -> bool {
    let state = planner.state();
    FUNCTIONS.iter().copied().flatten().any(|function| function.name == name)
        || state.scalar_functions().contains_key(name)
        || state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
}

/// Stable functions are evaluated once where their arguments are constants; those that do something must not be.
fn volatility(name: &str) -> Volatility {
    match name {
        "set_config" | "pg_notify" | "pg_cancel_backend" | "pg_terminate_backend" | "pg_reload_conf" => Volatility::Volatile,
        _ => Volatility::Stable,
    }
}

struct SystemFunction {
    function: &'static Function,
    snapshot: Arc<SystemSnapshot>,
    signature: Signature,
}

impl std::fmt::Debug for SystemFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SystemFunction({})", self.function.name)
    }
}

impl PartialEq for SystemFunction {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name && Arc::ptr_eq(&self.snapshot, &other.snapshot)
    }
}

impl Eq for SystemFunction {}

impl Hash for SystemFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for SystemFunction {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(self.function.kind.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> DataFusionResult<FieldRef> {
        Ok(Arc::new(self.function.kind.field(self.function.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let columns =
            args.args.iter().map(|arg| cells_of(&arg.to_array(rows)?, rows)).collect::<DataFusionResult<Vec<Vec<Cell>>>>()?;
        let mut results = Vec::with_capacity(rows);
        let mut row: Vec<Cell> = vec![];
        for at in 0..rows {
            row.clear();
            row.extend(columns.iter().map(|column| column[at].clone()));
            results.push(if self.function.strict && row.contains(&Cell::Null) {
                Cell::Null
            } else {
                (self.function.evaluate)(&self.snapshot, &row).map_err(|error| DataFusionError::External(Box::new(error)))?
            });
        }
        let array = array_of(self.function.kind, &results);
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The values of an argument, each in the widest form of its kind.
fn cells_of(array: &ArrayRef, rows: usize) -> DataFusionResult<Vec<Cell>> {
    let cell = |at: usize, value: Cell, array: &dyn Array| if array.is_null(at) { Cell::Null } else { value };
    Ok(match array.data_type() {
        DataType::Null => vec![Cell::Null; rows],
        DataType::Boolean => {
            let array = array.as_boolean();
            (0..rows).map(|at| cell(at, Cell::Bool(array.value(at)), array)).collect()
        }
        kind if kind.is_integer() => {
            let array = cast(array, &DataType::Int64)?;
            let array = array.as_primitive::<Int64Type>();
            (0..rows).map(|at| cell(at, Cell::Int(array.value(at)), array)).collect()
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            (0..rows).map(|at| list_cell(array, at)).collect::<DataFusionResult<_>>()?
        }
        _ => {
            let array = cast(array, &DataType::Utf8)?;
            let array = array.as_string::<i32>();
            (0..rows).map(|at| cell(at, Cell::Text(array.value(at).to_string()), array)).collect()
        }
    })
}

fn list_cell(array: &ArrayRef, at: usize) -> DataFusionResult<Cell> {
    if array.is_null(at) {
        return Ok(Cell::Null);
    }
    let ScalarValue::List(list) = ScalarValue::try_from_array(array, at)? else { return Ok(Cell::Null) };
    let values = list.value(0);
    let cells = match values.data_type() {
        DataType::List(_) => return Ok(Cell::Null),
        _ => cells_of(&values, values.len())?,
    };
    let integers = cells.iter().all(|cell| matches!(cell, Cell::Int(_)));
    if integers && !cells.is_empty() {
        return Ok(Cell::Ints(cells.iter().map(|cell| if let Cell::Int(value) = cell { *value } else { 0 }).collect()));
    }
    Ok(Cell::Texts(cells.into_iter().map(|cell| as_text(&cell).unwrap_or_default()).collect()))
}

/// An argument as an OID: a number, or a number's text.
pub fn as_oid(cell: Option<&Cell>) -> Option<u32> {
    match cell? {
        Cell::Int(value) => u32::try_from(*value).ok(),
        Cell::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// An argument as an integer.
pub fn as_int(cell: Option<&Cell>) -> Option<i64> {
    match cell? {
        Cell::Int(value) => Some(*value),
        Cell::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A value as text.
pub fn as_text(cell: &Cell) -> Option<String> {
    match cell {
        Cell::Null => None,
        Cell::Bool(value) => Some(if *value { "t" } else { "f" }.to_string()),
        Cell::Int(value) => Some(value.to_string()),
        Cell::Float(value) => Some(value.to_string()),
        Cell::Text(text) => Some(text.clone()),
        Cell::Texts(texts) => Some(format!("{{{}}}", texts.join(","))),
        Cell::Ints(values) => Some(format!("{{{}}}", values.iter().map(i64::to_string).collect::<Vec<_>>().join(","))),
    }
}

/// The argument at a place as text.
pub fn text_at(args: &[Cell], at: usize) -> Option<String> {
    args.get(at).and_then(as_text)
}

/// An array of NULLs of a type.
pub fn nulls(data_type: &DataType, rows: usize) -> ArrayRef {
    new_null_array(data_type, rows)
}
