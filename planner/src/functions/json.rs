//! Parts of `json` and `jsonb` values: the functions behind `->`, `->>`, `#>` and `#>>`, by Postgres's names, and what says what a
//! value is.
//!
//! Parts of `json` are as they are written in it; those of `jsonb` are in its form already, since the whole is.

use super::{error, is_text};
use arrow::array::{Array, ArrayRef, AsArray, Int32Builder, ListArray, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::any::Any;
use std::sync::Arc;
use thalweg_catalog::json::get::{self, Kind};
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType};

/// What a function does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Part {
    /// The value of a key.
    Member,
    /// The element at a place.
    Element,
    /// What is at the end of a path: an array of text, or text after text.
    Path,
    /// The name of a value's kind.
    TypeName,
    /// How many elements an array has.
    Length,
}

/// One function: what it does, to `jsonb` or to `json`, and whether its result is text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct JsonFunction {
    name: &'static str,
    part: Part,
    source: SqlType,
    as_text: bool,
    signature: Signature,
}

const FUNCTIONS: [(&str, &str, Part, bool); 8] = [
    ("json_object_field", "jsonb_object_field", Part::Member, false),
    ("json_object_field_text", "jsonb_object_field_text", Part::Member, true),
    ("json_array_element", "jsonb_array_element", Part::Element, false),
    ("json_array_element_text", "jsonb_array_element_text", Part::Element, true),
    ("json_extract_path", "jsonb_extract_path", Part::Path, false),
    ("json_extract_path_text", "jsonb_extract_path_text", Part::Path, true),
    ("json_typeof", "jsonb_typeof", Part::TypeName, true),
    ("json_array_length", "jsonb_array_length", Part::Length, false),
];

pub(super) fn functions() -> Vec<ScalarUDF> {
    let both = |(json, jsonb, part, as_text)| [(json, part, SqlType::Json, as_text), (jsonb, part, SqlType::Jsonb, as_text)];
    FUNCTIONS.into_iter().flat_map(both).map(|(name, part, source, as_text)| function(name, part, source, as_text)).collect()
}

/// The function that takes a part of a value of this type.
pub(crate) fn taking(part: Part, source: &SqlType, as_text: bool) -> Option<ScalarUDF> {
    let (json, jsonb, ..) = FUNCTIONS.iter().find(|(.., p, t)| *p == part && *t == as_text)?;
    let name = if *source == SqlType::Jsonb { jsonb } else { json };
    Some(function(name, part, source.clone(), as_text))
}

fn function(name: &'static str, part: Part, source: SqlType, as_text: bool) -> ScalarUDF {
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::from(JsonFunction { name, part, source, as_text, signature })
}

impl JsonFunction {
    fn result(&self) -> SqlType {
        match self.part {
            Part::Length => SqlType::Int4,
            _ if self.as_text => SqlType::Text,
            _ => self.source.clone(),
        }
    }

    /// The part of a value that is asked for.
    fn get<'a>(&self, value: &'a str, keys: &Keys, row: usize) -> SqlResult<Option<&'a str>> {
        match keys {
            Keys::Place(places) => Ok(get::element(value, places.as_primitive::<Int64Type>().value(row))),
            Keys::Texts(texts) if self.part == Part::Member => get::member(value, texts[0].value(row)),
            Keys::Texts(texts) => get::at_path(value, texts.iter().map(|text| text.value(row))),
            Keys::Path(paths) => {
                let path = paths.value(row);
                let steps = path.as_string::<i32>();
                // A path with a step that is not known leads nowhere.
                if steps.null_count() > 0 { Ok(None) } else { get::at_path(value, steps.iter().flatten()) }
            }
        }
    }

    fn parts(&self, values: &StringArray, keys: &Keys) -> SqlResult<ArrayRef> {
        let mut out = StringBuilder::with_capacity(values.len(), values.len() * 8);
        for row in 0..values.len() {
            if values.is_null(row) || keys.is_null(row) {
                out.append_null();
                continue;
            }
            let value = values.value(row);
            if self.part == Part::TypeName {
                out.append_value(Kind::of(value).name());
                continue;
            }
            match self.get(value, keys, row)? {
                None => out.append_null(),
                Some(found) if self.as_text => out.append_option(get::as_text(found)?),
                Some(found) => out.append_value(found),
            }
        }
        Ok(Arc::new(out.finish()))
    }
}

/// What says which part is taken.
enum Keys {
    Place(ArrayRef),
    Texts(Vec<StringArray>),
    Path(ListArray),
}

impl Keys {
    fn of(arrays: &[ArrayRef]) -> Keys {
        match arrays {
            [place] if *place.data_type() == DataType::Int64 => Keys::Place(Arc::clone(place)),
            [path] if matches!(path.data_type(), DataType::List(_)) => Keys::Path(path.as_list::<i32>().clone()),
            texts => Keys::Texts(texts.iter().map(|text| text.as_string::<i32>().clone()).collect()),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Keys::Place(places) => places.is_null(row),
            Keys::Texts(texts) => texts.iter().any(|text| text.is_null(row)),
            Keys::Path(paths) => paths.is_null(row),
        }
    }
}

fn lengths(values: &StringArray) -> SqlResult<ArrayRef> {
    let mut out = Int32Builder::with_capacity(values.len());
    for value in values {
        out.append_option(value.map(length_of).transpose()?);
    }
    Ok(Arc::new(out.finish()))
}

fn length_of(value: &str) -> SqlResult<i32> {
    match get::length(value) {
        Some(length) => Ok(i32::try_from(length).unwrap_or(i32::MAX)),
        None => {
            let what = if Kind::of(value) == Kind::Object { "a non-array" } else { "a scalar" };
            Err(SqlError::new(SqlState::InvalidParameterValue, format!("cannot get array length of {what}")))
        }
    }
}

impl ScalarUDFImpl for JsonFunction {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let text_list = || DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
        match (self.part, types) {
            (_, [source, ..]) if !is_text(source) => super::wrong_types(self.name, types),
            (Part::Element, [_, place]) if place.is_integer() || place.is_null() => Ok(vec![DataType::Utf8, DataType::Int64]),
            (Part::Member, [_, key]) if is_text(key) => Ok(vec![DataType::Utf8; 2]),
            (Part::Path, [_, DataType::List(_)]) => Ok(vec![DataType::Utf8, text_list()]),
            (Part::Path, [_, steps @ ..]) if steps.iter().all(is_text) => Ok(vec![DataType::Utf8; types.len()]),
            (Part::TypeName | Part::Length, [_]) => Ok(vec![DataType::Utf8]),
            _ => super::wrong_types(self.name, types),
        }
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.result().to_arrow())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(self.result().to_field(self.name, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|arg| arg.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = arrays[0].as_string::<i32>();
        let result = match self.part {
            Part::Length => lengths(values).map_err(error)?,
            _ => self.parts(values, &Keys::of(&arrays[1..])).map_err(error)?,
        };
        if is_scalar {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        } else {
            Ok(ColumnarValue::Array(result))
        }
    }
}
