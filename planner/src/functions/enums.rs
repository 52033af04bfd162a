//! Functions of enum types: `enum_position(value, 'type')` a label's place among the others, `enum_label(place, 'type')` the label
//! that stands there, by which the least and the greatest are found; `enum_first`, `enum_last` and `enum_range` of users, which
//! depend on their argument's type alone and are replaced by what they give.

use super::error;
use arrow::array::{ArrayRef, AsArray, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::{Arc, LazyLock};
use thalweg_catalog::{CarriedType, EnumType, SqlError, SqlResult, SqlType};

/// The names of the functions that are replaced.
pub(crate) const OF_TYPE: [&str; 3] = ["enum_first", "enum_last", "enum_range"];

/// The name of the function that gives a label's place.
pub(crate) const POSITION: &str = "enum_position";

/// The place of a label among the others, from 0.
pub(crate) fn position(value: Expr, of: &CarriedType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(Kind::Position)));
    called(&FUNCTION, value, of)
}

/// The label at a place.
pub(crate) fn label(place: Expr, of: &CarriedType) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function(Kind::Label)));
    called(&FUNCTION, place, of)
}

fn called(function: &ScalarUDF, value: Expr, of: &CarriedType) -> Expr {
    let name = ScalarValue::Utf8(Some(SqlType::Carried(of.clone()).spelled()));
    function.call(vec![value, Expr::Literal(name, None)])
}

pub(super) fn functions() -> Vec<ScalarUDF> {
    [Kind::Position, Kind::Label, Kind::First, Kind::Last, Kind::Range].map(function).to_vec()
}

fn function(kind: Kind) -> ScalarUDF {
    ScalarUDF::from(OfEnum { kind, signature: Signature::user_defined(Volatility::Immutable) })
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Position,
    Label,
    First,
    Last,
    Range,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfEnum {
    kind: Kind,
    signature: Signature,
}

impl OfEnum {
    /// The type that is written out, or that of the argument.
    fn enum_type(&self, written: Option<&ScalarValue>, argument: Option<&FieldRef>) -> Option<Arc<EnumType>> {
        let found = match (self.kind, written) {
            (Kind::Position | Kind::Label, Some(ScalarValue::Utf8(Some(name)))) => SqlType::parse(name),
            (Kind::Position | Kind::Label, _) => None,
            _ => SqlType::from_field(argument?).ok(),
        };
        match found {
            Some(SqlType::Carried(CarriedType::Enum(of))) => Some(of),
            _ => None,
        }
    }

    fn result_type(&self, of: Arc<EnumType>) -> SqlType {
        let label = SqlType::Carried(CarriedType::Enum(of));
        match self.kind {
            Kind::Position => SqlType::Int4,
            Kind::Label | Kind::First | Kind::Last => label,
            Kind::Range => SqlType::Array(Box::new(label)),
        }
    }
}

impl ScalarUDFImpl for OfEnum {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        match self.kind {
            Kind::Position => POSITION,
            Kind::Label => "enum_label",
            Kind::First => OF_TYPE[0],
            Kind::Last => OF_TYPE[1],
            Kind::Range => OF_TYPE[2],
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match (self.kind, types.len()) {
            (Kind::Position, 2) => Ok(vec![DataType::Utf8; 2]),
            (Kind::Label, 2) => Ok(vec![DataType::Int32, DataType::Utf8]),
            (Kind::First | Kind::Last | Kind::Range, 1) => Ok(types.to_vec()),
            _ => super::wrong_types(self.name(), types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        super::wrong_types(self.name(), types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let found = self.enum_type(args.scalar_arguments.get(1).copied().flatten(), args.arg_fields.first());
        let Some(of) = found else {
            let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
            return super::wrong_types(self.name(), &types);
        };
        let sql_type = self.result_type(of);
        Ok(Arc::new(match self.kind {
            Kind::Position => Field::new(self.name(), DataType::Int32, true),
            _ => sql_type.to_field(self.name(), true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let written = match args.args.get(1) {
            Some(ColumnarValue::Scalar(name)) => Some(name),
            _ => None,
        };
        let Some(of) = self.enum_type(written, args.arg_fields.first()) else {
            return Err(error(SqlError::invalid_parameter(format!("the type of {} must be written out", self.name()))));
        };
        let is_scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let values = args.args[0].to_array(if is_scalar { 1 } else { args.number_rows })?;
        let result: ArrayRef = match self.kind {
            Kind::Position => Arc::new(positions(values.as_string::<i32>(), &of).map_err(error)?),
            Kind::Label => Arc::new(labels(values.as_primitive::<Int32Type>(), &of).map_err(error)?),
            _ => return Err(error(SqlError::internal(format!("{} was not replaced", self.name())))),
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}

fn positions(values: &StringArray, of: &EnumType) -> SqlResult<Int32Array> {
    let place = |label: &str| i32::try_from(of.place(label)?).map_err(|_| SqlError::internal("a type has too many labels"));
    values.iter().map(|value| value.map(place).transpose()).collect()
}

fn labels<'a>(places: &Int32Array, of: &'a EnumType) -> SqlResult<StringArray> {
    let label = |place: i32| -> SqlResult<&'a str> {
        let found = usize::try_from(place).ok().and_then(|place| of.labels.get(place));
        found.map(String::as_str).ok_or_else(|| SqlError::internal(format!("type {of} has no label {place}")))
    };
    places.iter().map(|place| place.map(label).transpose()).collect()
}

#[cfg(test)]
mod tests;
