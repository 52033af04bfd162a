//! Functions on arrays of any type: bounds, subscripts, and the set-returning ones as lists that `unnest` spreads.

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int32Builder, ListArray, ListBuilder, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, Int32Type};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::any::Any;
use std::sync::Arc;

/// The functions of this module, to be registered.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let kinds = [Function::Upper, Function::Lower, Function::Subscripts, Function::Expand];
    kinds
        .into_iter()
        .map(|function| ScalarUDF::from(ArrayFunction { function, signature: Signature::variadic_any(Volatility::Immutable) }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Function {
    /// `array_upper(array, dimension)`.
    Upper,
    /// `array_lower(array, dimension)`.
    Lower,
    /// `_subscripts(array, dimension, first)`: the list of an array's subscripts.
    Subscripts,
    /// `_expandarray(array)`: the list of an array's elements with their places, as records `(x, n)`.
    Expand,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct ArrayFunction {
    function: Function,
    signature: Signature,
}

fn pair_fields() -> Fields {
    Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("n", DataType::Int32, true)])
}

fn list_type(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

impl ScalarUDFImpl for ArrayFunction {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.function {
            Function::Upper => "array_upper",
            Function::Lower => "array_lower",
            Function::Subscripts => "_subscripts",
            Function::Expand => "_expandarray",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DataFusionResult<DataType> {
        Ok(match self.function {
            Function::Upper | Function::Lower => DataType::Int32,
            Function::Subscripts => list_type(DataType::Int32),
            Function::Expand => list_type(DataType::Struct(pair_fields())),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DataFusionResult<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<DataFusionResult<Vec<_>>>()?;
        let first = match arrays.get(2) {
            Some(first) => cast(first, &DataType::Int32)?.as_primitive::<Int32Type>().iter().next().flatten().unwrap_or(1),
            None => 1,
        };
        let lists = arrays.first().and_then(|array| array.as_list_opt::<i32>().cloned());
        let Some(lists) = lists else {
            // An untyped NULL, or an array that is kept in another way: no elements.
            return Ok(ColumnarValue::Array(super::nulls(&self.return_type(&[])?, rows)));
        };
        Ok(ColumnarValue::Array(match self.function {
            Function::Upper => bounds(&lists, |length| length),
            Function::Lower => bounds(&lists, |_| 1),
            Function::Subscripts => subscripts(&lists, first),
            Function::Expand => expand(&lists)?,
        }))
    }
}

/// A bound of each array; NULL for an empty one, which has none.
fn bounds(lists: &ListArray, bound: impl Fn(i32) -> i32) -> ArrayRef {
    let lengths = (0..lists.len()).map(|at| (!lists.is_null(at)).then(|| lists.value_length(at)).filter(|n| *n > 0));
    Arc::new(lengths.map(|length| length.map(&bound)).collect::<Int32Array>())
}

fn subscripts(lists: &ListArray, first: i32) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for at in 0..lists.len() {
        let length = if lists.is_null(at) { 0 } else { lists.value_length(at) };
        builder.append_value((first..first + length).map(Some));
    }
    Arc::new(builder.finish())
}

fn expand(lists: &ListArray) -> DataFusionResult<ArrayRef> {
    let lengths: Vec<usize> =
        (0..lists.len()).map(|at| if lists.is_null(at) { 0 } else { lists.value_length(at) as usize }).collect();
    let places: Int32Array = lengths.iter().flat_map(|length| 1..=*length as i32).map(Some).collect();
    let mut elements = vec![];
    for (at, length) in lengths.iter().enumerate() {
        if *length > 0 {
            elements.push(cast(&lists.value(at), &DataType::Int32)?);
        }
    }
    let parts: Vec<&dyn Array> = elements.iter().map(|array| &**array).collect();
    let values = if parts.is_empty() { super::nulls(&DataType::Int32, 0) } else { arrow::compute::concat(&parts)? };
    let pairs = StructArray::try_new(pair_fields(), vec![values, Arc::new(places)], None)?;
    let field = Arc::new(Field::new("item", DataType::Struct(pair_fields()), true));
    Ok(Arc::new(ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), Arc::new(pairs), None)?))
}
