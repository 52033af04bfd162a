//! Messages of the protocol: what a client may send, decoded without trust in any length or count, and what is sent.

use super::connections::Notification;
use super::session::{Notice, ResultColumn};
use super::value::Format;
use super::value::read::utf8;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use thalweg_catalog::{SqlError, SqlResult, SqlState, SqlType};

/// The longest message that is taken, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// A message of a client after its startup.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Frontend {
    Query(String),
    Parse { name: String, sql: String, param_oids: Vec<u32> },
    Bind(Bind),
    Describe(Target),
    Execute { portal: String, rows_max: u32 },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
}

/// The parts of Bind.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Bind {
    pub portal: String,
    pub statement: String,
    /// None: all text; one: for all; else one for each.
    pub param_formats: Vec<i16>,
    pub params: Vec<Option<Bytes>>,
    /// As `param_formats`.
    pub result_formats: Vec<i16>,
}

/// What Describe and Close are about.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Target {
    Statement(String),
    Portal(String),
}

impl Frontend {
    /// Decodes the body of a message of this type.
    ///
    /// # Errors
    /// `08P01` for a body that is not as it should be, `22021` for text that is not UTF-8.
    pub fn decode(kind: u8, body: Bytes) -> SqlResult<Frontend> {
        let mut body = Body(body);
        let message = match kind {
            b'Q' => Frontend::Query(body.string()?),
            b'P' => {
                let (name, sql) = (body.string()?, body.string()?);
                let count = body.count()?;
                let param_oids = (0..count).map(|_| body.u32()).collect::<SqlResult<_>>()?;
                Frontend::Parse { name, sql, param_oids }
            }
            b'B' => Frontend::Bind(body.bind()?),
            b'D' => Frontend::Describe(body.target()?),
            b'E' => {
                let portal = body.string()?;
                // Zero and below mean all rows.
                let rows_max = u32::try_from(body.i32()?).unwrap_or(0);
                Frontend::Execute { portal, rows_max }
            }
            b'C' => Frontend::Close(body.target()?),
            b'H' => Frontend::Flush,
            b'S' => Frontend::Sync,
            b'X' => Frontend::Terminate,
            b'd' => return Ok(Frontend::CopyData(body.0)),
            b'c' => Frontend::CopyDone,
            b'f' => Frontend::CopyFail(body.string()?),
            b'F' => return Err(SqlError::unsupported("function calls by the protocol are not supported")),
            _ => return Err(protocol_violation(format!("invalid frontend message type {kind}"))),
        };
        if body.0.is_empty() { Ok(message) } else { Err(protocol_violation("invalid message format")) }
    }

    /// Whether messages of this type exist: any other means that client and server have lost step.
    pub fn is_known(kind: u8) -> bool {
        b"QPBDECHSXdcfF".contains(&kind)
    }

    /// Whether an error while this type of message is handled makes the messages up to Sync be skipped.
    pub fn is_extended(kind: u8) -> bool {
        b"PBDECHS".contains(&kind)
    }
}

/// `08P01`.
pub fn protocol_violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::ProtocolViolation, message)
}

/// A message's body, read from the front.
struct Body(Bytes);

impl Body {
    fn take(&mut self, length: usize) -> SqlResult<Bytes> {
        if self.0.len() < length {
            return Err(protocol_violation("insufficient data left in message"));
        }
        Ok(self.0.split_to(length))
    }

    fn i16(&mut self) -> SqlResult<i16> {
        Ok(self.take(2)?.get_i16())
    }

    fn i32(&mut self) -> SqlResult<i32> {
        Ok(self.take(4)?.get_i32())
    }

    fn u32(&mut self) -> SqlResult<u32> {
        Ok(self.take(4)?.get_u32())
    }

    fn count(&mut self) -> SqlResult<u16> {
        // Clients send up to 65535 parameters, though the count is signed in the protocol's words.
        Ok(self.take(2)?.get_u16())
    }

    fn string(&mut self) -> SqlResult<String> {
        let end = self.0.iter().position(|b| *b == 0).ok_or_else(|| protocol_violation("invalid string in message"))?;
        let text = self.take(end + 1)?;
        Ok(utf8(&text[..end])?.to_string())
    }

    fn target(&mut self) -> SqlResult<Target> {
        let kind = self.take(1)?[0];
        let name = self.string()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            _ => Err(protocol_violation(format!("invalid message subtype {kind}"))),
        }
    }

    fn bind(&mut self) -> SqlResult<Bind> {
        let (portal, statement) = (self.string()?, self.string()?);
        let count = self.count()?;
        let param_formats = (0..count).map(|_| self.i16()).collect::<SqlResult<_>>()?;
        let count = self.count()?;
        let mut params = vec![];
        for _ in 0..count {
            params.push(match self.i32()? {
                -1 => None,
                length => {
                    let length = usize::try_from(length).map_err(|_| protocol_violation("invalid message format"))?;
                    Some(self.take(length)?)
                }
            });
        }
        let count = self.count()?;
        let result_formats = (0..count).map(|_| self.i16()).collect::<SqlResult<_>>()?;
        Ok(Bind { portal, statement, param_formats, params, result_formats })
    }
}

/// Appends a message whose body `fill` writes.
pub fn put_message(out: &mut BytesMut, kind: u8, fill: impl FnOnce(&mut BytesMut)) {
    out.put_u8(kind);
    let start = out.len();
    out.put_i32(0);
    fill(out);
    close_message(out, start);
}

/// Sets the length of the message whose length field is at `start`.
///
/// # Panics
/// If the body is longer than a length field can say; rows are checked by [`super::value::write::BatchWriter`].
pub fn close_message(out: &mut BytesMut, start: usize) {
    let length = i32::try_from(out.len() - start).expect("no message has 2 GB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_string(out: &mut BytesMut, text: &str) {
    // Text that came from outside may hold a zero byte, which would end the string early.
    out.extend(text.bytes().filter(|b| *b != 0));
    out.put_u8(0);
}

/// AuthenticationSASL: by which mechanisms the client may prove that it knows the password.
pub fn put_sasl_mechanisms(out: &mut BytesMut, mechanisms: &[&str]) {
    put_message(out, b'R', |out| {
        out.put_i32(10);
        for mechanism in mechanisms {
            out.extend_from_slice(mechanism.as_bytes());
            out.put_u8(0);
        }
        out.put_u8(0);
    });
}

/// AuthenticationSASLContinue, or with `last` AuthenticationSASLFinal.
pub fn put_sasl_data(out: &mut BytesMut, last: bool, data: &[u8]) {
    put_message(out, b'R', |out| {
        out.put_i32(if last { 12 } else { 11 });
        out.extend_from_slice(data);
    });
}

/// AuthenticationOk.
pub fn put_authentication_ok(out: &mut BytesMut) {
    put_message(out, b'R', |out| out.put_i32(0));
}

/// ParameterStatus.
pub fn put_parameter_status(out: &mut BytesMut, name: &str, value: &str) {
    put_message(out, b'S', |out| {
        put_string(out, name);
        put_string(out, value);
    });
}

/// BackendKeyData.
pub fn put_backend_key(out: &mut BytesMut, process_id: i32, secret: i32) {
    put_message(out, b'K', |out| {
        out.put_i32(process_id);
        out.put_i32(secret);
    });
}

/// NegotiateProtocolVersion: only 3.0 and none of the named options.
pub fn put_negotiate_version(out: &mut BytesMut, options: &[String]) {
    put_message(out, b'v', |out| {
        out.put_i32(3 << 16);
        out.put_i32(options.len() as i32);
        for option in options {
            put_string(out, option);
        }
    });
}

/// ReadyForQuery.
pub fn put_ready(out: &mut BytesMut, status: u8) {
    put_message(out, b'Z', |out| out.put_u8(status));
}

/// A message without a body: ParseComplete `1`, BindComplete `2`, CloseComplete `3`, NoData `n`, PortalSuspended `s`,
/// EmptyQueryResponse `I`, CopyDone `c`.
pub fn put_bare(out: &mut BytesMut, kind: u8) {
    put_message(out, kind, |_| {});
}

/// CommandComplete.
pub fn put_complete(out: &mut BytesMut, tag: &str) {
    put_message(out, b'C', |out| put_string(out, tag));
}

/// ParameterDescription.
pub fn put_parameter_description(out: &mut BytesMut, oids: &[u32]) {
    put_message(out, b't', |out| {
        out.put_u16(oids.len() as u16);
        for oid in oids {
            out.put_u32(if matches!(oid, 0 | 705) { 25 } else { *oid });
        }
    });
}

/// RowDescription.
pub fn put_row_description(out: &mut BytesMut, columns: &[ResultColumn], formats: &[Format]) {
    put_message(out, b'T', |out| {
        out.put_u16(columns.len() as u16);
        for (at, column) in columns.iter().enumerate() {
            put_string(out, &column.name);
            out.put_u32(column.table_oid);
            out.put_i16(column.column_number);
            out.put_u32(column.type_oid);
            out.put_i16(type_length(column));
            out.put_i32(type_modifier(column));
            out.put_i16(formats.get(at).map_or(0, |format| format.code()));
        }
    });
}

/// The modifier of a column's type. A numeric that was computed has none, unless the query writes it: its size is what the computation
/// needs.
fn type_modifier(column: &ResultColumn) -> i32 {
    if let Some(written) = column.written_modifier {
        return written;
    }
    let computed = matches!(column.sql_type, SqlType::Numeric(_)) && column.table_oid == 0;
    if computed || column.type_oid != column.sql_type.oid() { -1 } else { column.sql_type.typmod() }
}

/// `pg_type.typlen` of a column's type.
fn type_length(column: &ResultColumn) -> i16 {
    match column.type_oid {
        18 => 1,
        19 => 64,
        24 | 26 | 28 | 29 | 2205 | 2206 | 2278 | 4089 | 4096 => 4,
        5069 => 8,
        oid if oid == column.sql_type.oid() => column.sql_type.typlen(),
        _ => -1,
    }
}

/// CopyInResponse `G` or CopyOutResponse `H`.
pub fn put_copy_response(out: &mut BytesMut, kind: u8, format: Format, columns: usize) {
    put_message(out, kind, |out| {
        out.put_u8(format.code() as u8);
        out.put_u16(columns as u16);
        for _ in 0..columns {
            out.put_i16(format.code());
        }
    });
}

/// NotificationResponse.
pub fn put_notification(out: &mut BytesMut, notification: &Notification) {
    put_message(out, b'A', |out| {
        out.put_i32(notification.sender);
        put_string(out, &notification.channel);
        put_string(out, &notification.payload);
    });
}

/// ErrorResponse of severity ERROR or FATAL. `context` says where in the data it happened.
pub fn put_error(out: &mut BytesMut, severity: &str, error: &SqlError, context: Option<&str>) {
    put_message(out, b'E', |out| put_error_fields(out, severity, error, context));
}

/// NoticeResponse.
pub fn put_notice(out: &mut BytesMut, notice: &Notice) {
    put_message(out, b'N', |out| put_error_fields(out, notice.severity.word(), &notice.message, None));
}

fn put_error_fields(out: &mut BytesMut, severity: &str, error: &SqlError, context: Option<&str>) {
    let position = error.position.map(|at| at.to_string());
    let object = error.object.as_deref();
    let fields = [
        (b'S', Some(severity)),
        (b'V', Some(severity)),
        (b'C', Some(error.state.code())),
        (b'M', Some(error.message.as_str())),
        (b'D', error.detail.as_deref()),
        (b'H', error.hint.as_deref()),
        (b'P', position.as_deref()),
        (b'W', context),
        (b's', object.map(|object| object.schema.as_str())),
        (b't', object.map(|object| object.table.as_str())),
        (b'c', object.and_then(|object| object.column.as_deref())),
        (b'n', object.and_then(|object| object.constraint.as_deref())),
    ];
    for (kind, value) in fields {
        if let Some(value) = value {
            out.put_u8(kind);
            put_string(out, value);
        }
    }
    out.put_u8(0);
}

#[cfg(test)]
mod tests;
