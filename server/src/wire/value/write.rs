//! Columns of a batch as wire values: downcast once per batch, then written row by row.

use super::{Format, carried, interval, numeric, parse, text};
use crate::wire::session::{NAMED_OIDS, ResultColumn};
use crate::wire::settings::OutputSettings;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int16Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, ListArray, RecordBatch, StringArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, UInt32Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType,
};
use bytes::{BufMut, BytesMut};
use std::sync::Arc;
use thalweg_catalog::datetime::calendar::{POSTGRES_EPOCH_DAYS, POSTGRES_EPOCH_US};
use thalweg_catalog::types::NUMERIC_DEFAULT;
use thalweg_catalog::{CarriedType, SqlError, SqlResult, SqlState, SqlType};

/// Types of the system relations that need care beyond their [`SqlType`].
const INT2VECTOR: u32 = 22;
const OIDVECTOR: u32 = 30;

/// Types of 32 bits without a sign, carried as integers: oid, xid, cid.
const OIDS: [u32; 3] = [26, 28, 29];

/// The element types of arrays that no [`SqlType`] tells: of `"char"[]`, `name[]`, `int2vector`, `oidvector`, `oid[]`.
const ELEMENT_OIDS: [(u32, u32); 5] = [(1002, 18), (1003, 19), (INT2VECTOR, 21), (OIDVECTOR, 26), (1028, 26)];

/// Writes rows of one result.
pub struct RowWriter {
    columns: Vec<ResultColumn>,
    formats: Arc<[Format]>,
    settings: OutputSettings,
}

/// The rows of one batch, ready to be written.
pub struct BatchWriter {
    columns: Vec<ColumnWriter>,
    formats: Arc<[Format]>,
    settings: OutputSettings,
    rows: usize,
}

/// One column of a batch.
pub struct ColumnWriter {
    values: Values,
    /// Whether an array is written without braces, as int2vector and oidvector are.
    bare: bool,
    element_oid: u32,
}

/// A column's values by type.
enum Values {
    Boolean(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    /// `oid` and its like: unsigned, though carried with a sign.
    Oid(UInt32Array),
    Float4(Float32Array),
    Float8(Float64Array),
    /// With its scale, and whether it shows only the decimal places that it needs.
    Numeric(Decimal128Array, i8, bool),
    Text(StringArray),
    /// Shown by name, and OIDs in binary: the digits of the OID, a blank and the name.
    Named(StringArray),
    /// Padded with blanks to so many characters.
    Char(StringArray, usize),
    Bytea(BinaryArray),
    Date(Date32Array),
    Time(Time64MicrosecondArray),
    Timestamp(TimestampMicrosecondArray),
    TimestampTz(TimestampMicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    Uuid(StringArray),
    Jsonb(StringArray),
    Carried(StringArray, CarriedType),
    Array(ListArray, Box<ColumnWriter>),
    Record(StructArray, Vec<(u32, ColumnWriter)>),
}

impl RowWriter {
    /// A writer of rows with these columns, each in its format.
    ///
    /// # Panics
    /// If there are not as many formats as columns.
    pub fn new(columns: Vec<ResultColumn>, formats: Vec<Format>, settings: OutputSettings) -> RowWriter {
        assert_eq!(columns.len(), formats.len(), "a format for every column");
        RowWriter { columns, formats: formats.into(), settings }
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[ResultColumn] {
        &self.columns
    }

    /// Makes a batch ready: casts and downcasts its columns.
    ///
    /// # Errors
    /// A value that its column's type can't hold; `XX000` for a batch of other columns.
    pub fn batch(&self, batch: &RecordBatch) -> SqlResult<BatchWriter> {
        if batch.num_columns() != self.columns.len() {
            return Err(SqlError::internal(format!(
                "a result of {} columns has a batch of {}",
                self.columns.len(),
                batch.num_columns()
            )));
        }
        let columns = self.columns.iter().zip(batch.columns());
        let columns = columns
            .map(|(column, array)| ColumnWriter::new(array, &column.sql_type, column.type_oid))
            .collect::<SqlResult<_>>()?;
        Ok(BatchWriter { columns, formats: Arc::clone(&self.formats), settings: self.settings, rows: batch.num_rows() })
    }
}

impl BatchWriter {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns there are.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Appends a row's values, each with its length in front, −1 for NULL.
    ///
    /// # Errors
    /// A value that has no binary form.
    pub fn write_row(&self, row: usize, out: &mut BytesMut) -> SqlResult<()> {
        for (column, format) in self.columns.iter().zip(self.formats.iter()) {
            column.write_with_length(row, *format, &self.settings, out)?;
        }
        Ok(())
    }

    /// Whether a value is NULL.
    pub fn is_null(&self, column: usize, row: usize) -> bool {
        self.columns[column].is_null(row)
    }

    /// Appends a value as text.
    ///
    /// # Errors
    /// None now; kept so that types whose text can't be made may be refused.
    pub fn write_text(&self, column: usize, row: usize, out: &mut BytesMut) -> SqlResult<()> {
        self.columns[column].write_text(row, &self.settings, out)
    }
}

impl ColumnWriter {
    /// A writer for an array whose values are of this type.
    ///
    /// # Errors
    /// A value that the type can't hold.
    pub fn new(array: &ArrayRef, sql_type: &SqlType, type_oid: u32) -> SqlResult<ColumnWriter> {
        let sql_type = &as_deep(sql_type, array.data_type());
        let array = cast_to(array, sql_type)?;
        let element_oid = match sql_type {
            SqlType::Array(_) => ELEMENT_OIDS
                .iter()
                .find(|(array, _)| *array == type_oid)
                .map_or_else(|| innermost(sql_type).oid(), |(_, element)| *element),
            _ => 0,
        };
        let values = match sql_type {
            SqlType::Int4 if OIDS.contains(&type_oid) => Values::Oid(array.as_primitive::<Int32Type>().unary(|v| v as u32)),
            SqlType::Int8 if OIDS.contains(&type_oid) => Values::Oid(array.as_primitive::<Int64Type>().unary(|v| v as u32)),
            SqlType::Boolean => Values::Boolean(array.as_boolean().clone()),
            SqlType::Int2 => Values::Int2(array.as_primitive::<Int16Type>().clone()),
            SqlType::Int4 => Values::Int4(array.as_primitive::<Int32Type>().clone()),
            SqlType::Int8 => Values::Int8(array.as_primitive::<Int64Type>().clone()),
            SqlType::Float4 => Values::Float4(array.as_primitive::<Float32Type>().clone()),
            SqlType::Float8 => Values::Float8(array.as_primitive::<Float64Type>().clone()),
            SqlType::Numeric(_) => {
                let array = array.as_primitive::<Decimal128Type>().clone();
                let scale = array.scale();
                // Other places than a column's without a size were written, in a literal or a parameter.
                let shortest = *sql_type == SqlType::Numeric(None) && scale == NUMERIC_DEFAULT.1;
                Values::Numeric(array, scale, shortest)
            }
            SqlType::Text if NAMED_OIDS.contains(&type_oid) => Values::Named(array.as_string().clone()),
            SqlType::Text | SqlType::Varchar(_) | SqlType::Json => Values::Text(array.as_string().clone()),
            SqlType::Char(length) => Values::Char(array.as_string().clone(), *length as usize),
            SqlType::Bytea => Values::Bytea(array.as_binary().clone()),
            SqlType::Date => Values::Date(array.as_primitive::<Date32Type>().clone()),
            SqlType::Time => Values::Time(array.as_primitive::<Time64MicrosecondType>().clone()),
            SqlType::Timestamp => Values::Timestamp(array.as_primitive::<TimestampMicrosecondType>().clone()),
            SqlType::TimestampTz => Values::TimestampTz(array.as_primitive::<TimestampMicrosecondType>().clone()),
            SqlType::Interval => Values::Interval(array.as_primitive::<IntervalMonthDayNanoType>().clone()),
            SqlType::Uuid => Values::Uuid(array.as_string().clone()),
            SqlType::Jsonb => Values::Jsonb(array.as_string().clone()),
            SqlType::Carried(of) => Values::Carried(array.as_string().clone(), of.clone()),
            SqlType::Array(item) => {
                let list = array.as_list::<i32>().clone();
                let items = ColumnWriter::new(list.values(), item, element_oid)?;
                Values::Array(list, Box::new(items))
            }
            SqlType::Record(fields) => {
                let record = array.as_struct().clone();
                let writers = fields.iter().zip(record.columns());
                let writers = writers
                    .map(|((_, field), column)| Ok((field.oid(), ColumnWriter::new(column, field, field.oid())?)))
                    .collect::<SqlResult<_>>()?;
                Values::Record(record, writers)
            }
        };
        Ok(ColumnWriter { values, bare: matches!(type_oid, INT2VECTOR | OIDVECTOR), element_oid })
    }

    fn is_null(&self, row: usize) -> bool {
        match &self.values {
            Values::Boolean(a) => a.is_null(row),
            Values::Int2(a) => a.is_null(row),
            Values::Int4(a) => a.is_null(row),
            Values::Int8(a) => a.is_null(row),
            Values::Oid(a) => a.is_null(row),
            Values::Float4(a) => a.is_null(row),
            Values::Float8(a) => a.is_null(row),
            Values::Numeric(a, ..) => a.is_null(row),
            Values::Text(a) | Values::Char(a, _) | Values::Uuid(a) | Values::Jsonb(a) => a.is_null(row),
            Values::Carried(a, _) | Values::Named(a) => a.is_null(row),
            Values::Bytea(a) => a.is_null(row),
            Values::Date(a) => a.is_null(row),
            Values::Time(a) => a.is_null(row),
            Values::Timestamp(a) | Values::TimestampTz(a) => a.is_null(row),
            Values::Interval(a) => a.is_null(row),
            Values::Array(a, _) => a.is_null(row),
            Values::Record(a, _) => a.is_null(row),
        }
    }

    fn write_with_length(&self, row: usize, format: Format, settings: &OutputSettings, out: &mut BytesMut) -> SqlResult<()> {
        if self.is_null(row) {
            out.put_i32(-1);
            return Ok(());
        }
        let start = out.len();
        out.put_i32(0);
        match format {
            Format::Text => self.write_text(row, settings, out)?,
            Format::Binary => self.write_binary(row, settings, out)?,
        }
        let length = i32::try_from(out.len() - start - 4).map_err(|_| too_large())?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn write_text(&self, row: usize, settings: &OutputSettings, out: &mut BytesMut) -> SqlResult<()> {
        match &self.values {
            Values::Boolean(a) => out.put_u8(if a.value(row) { b't' } else { b'f' }),
            Values::Int2(a) => text::write_integer(i64::from(a.value(row)), out),
            Values::Int4(a) => text::write_integer(i64::from(a.value(row)), out),
            Values::Int8(a) => text::write_integer(a.value(row), out),
            Values::Oid(a) => text::write_integer(i64::from(a.value(row)), out),
            Values::Float4(a) => text::write_float4(a.value(row), settings.extra_float_digits, out),
            Values::Float8(a) => text::write_float8(a.value(row), settings.extra_float_digits, out),
            Values::Numeric(a, scale, shortest) => {
                let (value, scale) = numeric::shown(a.value(row), *scale, *shortest);
                numeric::write_text(value, scale, out);
            }
            Values::Text(a) | Values::Uuid(a) | Values::Jsonb(a) => out.put_slice(a.value(row).as_bytes()),
            Values::Named(a) => out.put_slice(oid_and_name(a.value(row))?.1.as_bytes()),
            Values::Carried(a, of) => carried::write_text(of, a.value(row), &settings.time_zone, out)?,
            Values::Char(a, length) => write_char(a.value(row), *length, out),
            Values::Bytea(a) => text::write_bytea(a.value(row), settings.bytea_output, out),
            Values::Date(a) => text::write_date(a.value(row), out),
            Values::Time(a) => text::write_time(a.value(row), out),
            Values::Timestamp(a) => text::write_timestamp(a.value(row), None, out),
            Values::TimestampTz(a) => text::write_timestamp(a.value(row), Some(&settings.time_zone), out),
            Values::Interval(a) => interval::write_interval(a.value(row), settings.interval_style, out),
            Values::Array(list, items) => self.write_array_text(list, items, row, settings, out)?,
            Values::Record(_, fields) => {
                let mut scratch = BytesMut::new();
                out.put_u8(b'(');
                for (index, (_, field)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.put_u8(b',');
                    }
                    if !field.is_null(row) {
                        scratch.clear();
                        field.write_text(row, settings, &mut scratch)?;
                        text::write_field(&scratch, out);
                    }
                }
                out.put_u8(b')');
            }
        }
        Ok(())
    }

    fn write_array_text(
        &self,
        list: &ListArray,
        items: &ColumnWriter,
        row: usize,
        settings: &OutputSettings,
        out: &mut BytesMut,
    ) -> SqlResult<()> {
        let range = range_of(list, row);
        let mut scratch = BytesMut::new();
        if !self.bare {
            out.put_u8(b'{');
        }
        for at in range.clone() {
            if at > range.start {
                out.put_u8(if self.bare { b' ' } else { b',' });
            }
            if items.is_null(at) {
                out.put_slice(b"NULL");
            } else if matches!(items.values, Values::Array(..)) {
                items.write_text(at, settings, out)?;
            } else {
                scratch.clear();
                items.write_text(at, settings, &mut scratch)?;
                text::write_element(&scratch, out);
            }
        }
        if !self.bare {
            out.put_u8(b'}');
        }
        Ok(())
    }

    fn write_binary(&self, row: usize, settings: &OutputSettings, out: &mut BytesMut) -> SqlResult<()> {
        match &self.values {
            Values::Boolean(a) => out.put_u8(u8::from(a.value(row))),
            Values::Int2(a) => out.put_i16(a.value(row)),
            Values::Int4(a) => out.put_i32(a.value(row)),
            Values::Int8(a) => out.put_i64(a.value(row)),
            Values::Oid(a) => out.put_u32(a.value(row)),
            Values::Float4(a) => out.put_f32(a.value(row)),
            Values::Float8(a) => out.put_f64(a.value(row)),
            Values::Numeric(a, scale, shortest) => {
                let (value, scale) = numeric::shown(a.value(row), *scale, *shortest);
                numeric::write_binary(value, scale, out);
            }
            Values::Text(a) => out.put_slice(a.value(row).as_bytes()),
            Values::Char(a, length) => write_char(a.value(row), *length, out),
            Values::Bytea(a) => out.put_slice(a.value(row)),
            Values::Date(a) => out.put_i32(match a.value(row) {
                infinite @ (i32::MIN | i32::MAX) => infinite,
                days => days.saturating_sub(POSTGRES_EPOCH_DAYS),
            }),
            Values::Time(a) => out.put_i64(a.value(row)),
            Values::Timestamp(a) | Values::TimestampTz(a) => out.put_i64(match a.value(row) {
                infinite @ (i64::MIN | i64::MAX) => infinite,
                us => us.saturating_sub(POSTGRES_EPOCH_US),
            }),
            Values::Interval(a) => {
                let value = a.value(row);
                out.put_i64(value.nanoseconds / 1000);
                out.put_i32(value.days);
                out.put_i32(value.months);
            }
            Values::Uuid(a) => {
                let bytes = parse::uuid_bytes(a.value(row)).ok_or_else(|| parse::invalid("uuid", a.value(row)))?;
                out.put_slice(&bytes);
            }
            Values::Named(a) => out.put_u32(oid_and_name(a.value(row))?.0),
            Values::Carried(a, of) => carried::write_binary(of, a.value(row), out)?,
            Values::Jsonb(a) => {
                out.put_u8(1);
                out.put_slice(a.value(row).as_bytes());
            }
            Values::Array(..) => self.write_array_binary(row, settings, out)?,
            Values::Record(_, fields) => {
                out.put_i32(fields.len() as i32);
                for (oid, field) in fields {
                    out.put_u32(*oid);
                    field.write_with_length(row, Format::Binary, settings, out)?;
                }
            }
        }
        Ok(())
    }

    fn write_array_binary(&self, row: usize, settings: &OutputSettings, out: &mut BytesMut) -> SqlResult<()> {
        let mut lengths = vec![];
        self.measure(row, &mut lengths);
        if lengths.contains(&0) {
            lengths.clear();
        }
        let vector = self.bare;
        out.put_i32(lengths.len() as i32);
        let flags_at = out.len();
        out.put_i32(0);
        out.put_u32(self.element_oid);
        for length in &lengths {
            out.put_i32(i32::try_from(*length).map_err(|_| too_large())?);
            out.put_i32(if vector { 0 } else { 1 });
        }
        let mut has_null = false;
        if !lengths.is_empty() {
            self.write_elements(row, &lengths, &mut has_null, settings, out)?;
        }
        out[flags_at + 3] = u8::from(has_null);
        Ok(())
    }

    /// The length of each dimension, by the first element of each.
    fn measure(&self, row: usize, lengths: &mut Vec<usize>) {
        if let Values::Array(list, items) = &self.values {
            let range = range_of(list, row);
            lengths.push(range.len());
            if !range.is_empty() {
                items.measure(range.start, lengths);
            }
        }
    }

    fn write_elements(
        &self,
        row: usize,
        lengths: &[usize],
        has_null: &mut bool,
        settings: &OutputSettings,
        out: &mut BytesMut,
    ) -> SqlResult<()> {
        let Values::Array(list, items) = &self.values else {
            *has_null |= self.is_null(row);
            return self.write_with_length(row, Format::Binary, settings, out);
        };
        let range = range_of(list, row);
        if lengths.first() != Some(&range.len()) || list.is_null(row) {
            return Err(SqlError::new(
                SqlState::DataException,
                "multidimensional arrays must have sub-arrays with matching dimensions",
            ));
        }
        range.into_iter().try_for_each(|at| items.write_elements(at, &lengths[1..], has_null, settings, out))
    }
}

fn range_of(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = list.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

/// The type with as many dimensions as the values have: what a client is told of a type says nothing of them.
fn as_deep(sql_type: &SqlType, data_type: &DataType) -> SqlType {
    let DataType::List(field) = data_type else { return sql_type.clone() };
    match sql_type {
        SqlType::Array(item) => match (item.as_ref(), field.data_type()) {
            (SqlType::Array(_), _) => SqlType::Array(Box::new(as_deep(item, field.data_type()))),
            (_, deeper @ DataType::List(_)) => SqlType::Array(Box::new(as_deep(sql_type, deeper))),
            _ => sql_type.clone(),
        },
        other => other.clone(),
    }
}

fn innermost(sql_type: &SqlType) -> &SqlType {
    match sql_type {
        SqlType::Array(item) => innermost(item),
        other => other,
    }
}

fn oid_and_name(value: &str) -> SqlResult<(u32, &str)> {
    let parts = value.split_once(' ').and_then(|(oid, name)| Some((oid.parse().ok()?, name)));
    parts.ok_or_else(|| SqlError::internal(format!("\"{value}\" is no OID and name")))
}

fn write_char(value: &str, length: usize, out: &mut BytesMut) {
    out.put_slice(value.as_bytes());
    out.put_bytes(b' ', length.saturating_sub(value.chars().count()));
}

fn too_large() -> SqlError {
    SqlError::new(SqlState::ProgramLimitExceeded, "a value is too large to be sent")
}

/// The array in the Arrow type that carries `sql_type`.
fn cast_to(array: &ArrayRef, sql_type: &SqlType) -> SqlResult<ArrayRef> {
    let wanted = sql_type.to_arrow();
    // Decimals are written with the scale that they have; field metadata and names inside nested types don't matter.
    if *array.data_type() == wanted
        || matches!((array.data_type(), sql_type), (DataType::Decimal128(_, s), SqlType::Numeric(_)) if *s >= 0)
        || array.data_type().equals_datatype(&wanted)
    {
        return Ok(array.clone());
    }
    cast(array, &wanted).map_err(|error| {
        SqlError::new(SqlState::CannotCoerce, format!("cannot show a value of type {} as {sql_type}", array.data_type()))
            .with_detail(error.to_string())
    })
}
