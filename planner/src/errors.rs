//! What DataFusion and Arrow report, as Postgres would say it: the one place where their errors get a SQLSTATE.

use arrow::error::ArrowError;
use datafusion::common::{Column, Diagnostic, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::tokenizer::Span;
use thalweg_catalog::{SqlError, SqlState, suggest};

/// How many columns a detail lists at most.
const LISTED_COLUMNS_MAX: usize = 20;

/// Where a piece of syntax starts in the statement, in characters from 1; none for syntax that no text stands for.
pub fn span_position(span: Span) -> Option<usize> {
    (span.start.line > 0 && span.start.column > 0).then_some(span.start.column as usize)
}

/// The error that a user is told for one of DataFusion's, in planning and in execution.
pub fn sql_error(error: &DataFusionError) -> SqlError {
    match error {
        DataFusionError::Diagnostic(diagnostic, inner) => with_diagnostic(sql_error(inner), diagnostic),
        DataFusionError::Context(_, inner) => sql_error(inner),
        DataFusionError::Shared(inner) => sql_error(inner),
        DataFusionError::Collection(all) => match all.first() {
            Some(first) => sql_error(first),
            None => SqlError::internal("an error without a reason"),
        },
        DataFusionError::External(inner) => external_error(inner.as_ref()),
        DataFusionError::ArrowError(inner, _) => arrow_error(inner),
        DataFusionError::SchemaError(inner, _) => schema_error(inner),
        DataFusionError::Plan(message) => plan_error(message),
        DataFusionError::NotImplemented(message) => not_implemented(message),
        DataFusionError::Execution(message) => execution_error(message),
        DataFusionError::ResourcesExhausted(message) => {
            SqlError::new(SqlState::OutOfMemory, "out of memory").with_detail(format!("{}.", sentence(message)))
        }
        DataFusionError::Configuration(message) => SqlError::invalid_parameter(sentence(message)),
        DataFusionError::SQL(parser, _) => SqlError::syntax(sentence(&parser.to_string())),
        DataFusionError::IoError(io) => SqlError::new(SqlState::IoError, io.to_string()),
        DataFusionError::ObjectStore(store) => SqlError::new(SqlState::IoError, store.to_string()),
        DataFusionError::ParquetError(parquet) => SqlError::new(SqlState::IoError, parquet.to_string()),
        DataFusionError::ExecutionJoin(join) => SqlError::internal(format!("a task ended early: {join}")),
        DataFusionError::Internal(message) | DataFusionError::Substrait(message) | DataFusionError::Ffi(message) => {
            internal_error(message)
        }
    }
}

fn not_implemented(message: &str) -> SqlError {
    let kinds = ["ScalarSubquery", "InSubquery", "Exists", "SetComparison", "OuterReferenceColumn"];
    let rest = message.split("does not support logical expression ").nth(1);
    match rest.filter(|rest| kinds.iter().any(|kind| rest.starts_with(kind))) {
        Some(_) => SqlError::unsupported("a subquery of this kind, in this place, is not supported")
            .with_detail("It names columns of the outer query in a way that can't be turned into a join.")
            .with_hint("Write it as a join."),
        None => SqlError::unsupported(sentence(message)),
    }
}

fn external_error(error: &(dyn std::error::Error + Send + Sync + 'static)) -> SqlError {
    if let Some(known) = error.downcast_ref::<SqlError>() {
        known.clone()
    } else if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        sql_error(inner)
    } else if let Some(inner) = error.downcast_ref::<ArrowError>() {
        arrow_error(inner)
    } else {
        SqlError::new(SqlState::DataException, error.to_string())
    }
}

/// The error that a user is told for one of Arrow's.
pub fn arrow_error(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::new(SqlState::DivisionByZero, "division by zero"),
        ArrowError::ExternalError(inner) => external_error(inner.as_ref()),
        ArrowError::ArithmeticOverflow(message) => {
            SqlError::new(SqlState::NumericValueOutOfRange, "value out of range").with_detail(format!("{}.", sentence(message)))
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => cast_error(message),
        ArrowError::InvalidArgumentError(message) | ArrowError::ComputeError(message) => execution_error(message),
        ArrowError::NotYetImplemented(message) => SqlError::unsupported(sentence(message)),
        ArrowError::MemoryError(message) => SqlError::new(SqlState::OutOfMemory, sentence(message)),
        ArrowError::IoError(message, _) => SqlError::new(SqlState::IoError, sentence(message)),
        ArrowError::CsvError(message) | ArrowError::JsonError(message) | ArrowError::AvroError(message) => {
            SqlError::new(SqlState::InvalidTextRepresentation, sentence(message))
        }
        ArrowError::IpcError(message) | ArrowError::ParquetError(message) => SqlError::new(SqlState::IoError, sentence(message)),
        ArrowError::SchemaError(message) | ArrowError::CDataInterface(message) => internal_error(message),
        ArrowError::DictionaryKeyOverflowError | ArrowError::RunEndIndexOverflowError | ArrowError::OffsetOverflowError(_) => {
            SqlError::new(SqlState::ProgramLimitExceeded, "a batch of values is too large")
        }
    }
}

fn with_diagnostic(mut error: SqlError, diagnostic: &Diagnostic) -> SqlError {
    if error.position.is_none() {
        let start = diagnostic.span.map(|span| span.start);
        error.position = start.filter(|s| s.line > 0 && s.column > 0).map(|s| s.column as usize);
    }
    error
}

fn schema_error(error: &SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => column_not_found(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            SqlError::new(SqlState::AmbiguousColumn, format!("column reference \"{}\" is ambiguous", shown(&field.name)))
                .with_hint("Write the relation's name or alias before it.")
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            let message = format!("table name \"{}\" specified more than once", qualifier.table());
            SqlError::new(SqlState::DuplicateAlias, message).with_hint("Give one of them another name with AS.")
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            SqlError::new(SqlState::DuplicateColumn, format!("column \"{}\" specified more than once", shown(name)))
        }
    }
}

fn column_not_found(field: &Column, valid: &[Column]) -> SqlError {
    let name = shown(&field.name);
    let message = match &field.relation {
        Some(relation) => {
            let known = valid.iter().any(|c| c.relation.as_ref().is_some_and(|r| r.resolved_eq(relation)));
            if !known && !valid.is_empty() && valid.iter().any(|c| c.relation.is_some()) {
                let table = relation.table();
                return SqlError::new(SqlState::UndefinedTable, format!("missing FROM-clause entry for table \"{table}\""));
            }
            format!("column \"{name}\" does not exist in \"{}\"", relation.table())
        }
        None => match common_relation(valid) {
            Some(relation) => format!("column \"{name}\" does not exist in \"{relation}\""),
            None => format!("column \"{name}\" does not exist"),
        },
    };
    let error = SqlError::new(SqlState::UndefinedColumn, message);
    let mut names: Vec<&str> = valid.iter().map(|c| shown(&c.name)).collect();
    names.dedup();
    let error = match (names.len(), common_relation(valid)) {
        (1..=LISTED_COLUMNS_MAX, Some(relation)) => {
            error.with_detail(format!("Relation \"{relation}\" has columns {}.", names.join(", ")))
        }
        (1..=LISTED_COLUMNS_MAX, None) => error.with_detail(format!("There are columns {}.", names.join(", "))),
        _ => error,
    };
    match suggest::nearest(name, names.iter().copied()) {
        Some(near) if near != name => error.with_hint(format!("Did you mean \"{near}\"?")),
        Some(_) => error,
        None => error,
    }
}

/// The name of the one relation that all columns are of.
fn common_relation(columns: &[Column]) -> Option<&str> {
    let first = columns.first()?.relation.as_ref()?.table();
    columns.iter().all(|c| c.relation.as_ref().is_some_and(|r| r.table() == first)).then_some(first)
}

fn shown(name: &str) -> &str {
    crate::rewrite::visible_name(name)
}

/// Classes of planning errors by a phrase in DataFusion's message. The first that fits counts.
const PLAN_ERRORS: [(&str, SqlState); 27] = [
    ("must appear in the GROUP BY clause", SqlState::GroupingError),
    ("must be part of an aggregate function", SqlState::GroupingError),
    ("HAVING clause references", SqlState::GroupingError),
    ("aggregate functions are not allowed", SqlState::GroupingError),
    ("Aggregate functions are not allowed", SqlState::GroupingError),
    ("specified more than once", SqlState::DuplicateAlias),
    ("require unique expression names", SqlState::DuplicateColumn),
    ("should only return one column", SqlState::SyntaxError),
    ("different number of columns", SqlState::SyntaxError),
    ("must have the same number of columns", SqlState::SyntaxError),
    ("Order by column out of bounds", SqlState::InvalidColumnReference),
    ("ORDER BY expressions", SqlState::InvalidColumnReference),
    ("Order by index", SqlState::InvalidColumnReference),
    ("GROUP BY position", SqlState::InvalidColumnReference),
    ("Cannot find column with position", SqlState::InvalidColumnReference),
    ("names given as column alias", SqlState::InvalidColumnReference),
    ("must be aggregated to return at most one row", SqlState::FeatureNotSupported),
    ("can only be used in", SqlState::FeatureNotSupported),
    ("is not defined", SqlState::UndefinedObject),
    ("defined multiple times", SqlState::DuplicateObject),
    ("laceholder", SqlState::UndefinedParameter),
    ("non-boolean predicate", SqlState::DatatypeMismatch),
    ("in CASE WHEN expression", SqlState::DatatypeMismatch),
    ("Incompatible inputs for Union", SqlState::DatatypeMismatch),
    ("Cannot automatically convert", SqlState::DatatypeMismatch),
    ("Unsupported", SqlState::FeatureNotSupported),
    ("not supported", SqlState::FeatureNotSupported),
];

fn plan_error(message: &str) -> SqlError {
    if message.contains(crate::functions::WINDOW_TIME_TYPE) {
        return SqlError::new(SqlState::DatatypeMismatch, crate::functions::WINDOW_TIME_TYPE)
            .with_hint("Cast it to timestamp or timestamptz in a subquery.");
    }
    if let Some(rest) = message.split("Invalid function '").nth(1) {
        return function_not_found(rest);
    }
    if let Some(name) = message.strip_prefix("table function '").and_then(|rest| rest.split('\'').next()) {
        return SqlError::new(SqlState::UndefinedFunction, format!("function {name} does not exist"));
    }
    if let Some(column) = ungrouped_column(message) {
        let message = format!("column \"{column}\" must appear in the GROUP BY clause or be used in an aggregate function");
        return SqlError::new(SqlState::GroupingError, message).with_hint("Group by it, or take its min() or max().");
    }
    if let Some(types) = operator_mismatch(message) {
        return types;
    }
    if message.contains("LIMIT must be >= 0") {
        return SqlError::new(SqlState::InvalidRowCountInLimit, "LIMIT must not be negative");
    }
    if message.contains("OFFSET must be >=") {
        return SqlError::new(SqlState::InvalidRowCountInOffset, "OFFSET must not be negative");
    }
    if let Some(error) = signature_mismatch(message) {
        return error;
    }
    let state = PLAN_ERRORS.iter().find(|(phrase, _)| message.contains(phrase)).map(|(_, state)| *state);
    let is_cast = message.contains("Unsupported CAST") || message.contains("Cannot cast");
    let state = if is_cast { SqlState::CannotCoerce } else { state.unwrap_or(SqlState::SyntaxError) };
    SqlError::new(state, sentence(message))
}

/// The column of `… column "t.a" must appear in the GROUP BY clause or must be part of an aggregate function, …`.
fn ungrouped_column(message: &str) -> Option<&str> {
    let (before, _) = message.split_once("\" must appear in the GROUP BY clause or must be part")?;
    before.rsplit_once('"').map(|(_, column)| shown(column))
}

fn function_not_found(rest: &str) -> SqlError {
    let name = rest.split('\'').next().unwrap_or(rest);
    let error = SqlError::new(SqlState::UndefinedFunction, format!("function {name} does not exist"));
    // What DataFusion finds may be far off, and another one each time.
    let near = rest.split("Did you mean '").nth(1).and_then(|near| near.split('\'').next());
    match near.and_then(|near| suggest::nearest(name, [near])) {
        Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
        None => {
            error.with_hint("No function matches the given name and argument types. You might need to add explicit type casts.")
        }
    }
}

/// `Cannot coerce arithmetic expression Utf8 + Int64 …`, `Cannot infer common argument type for comparison operation …`.
fn operator_mismatch(message: &str) -> Option<SqlError> {
    let phrases = [
        "Cannot coerce arithmetic expression ",
        "Cannot infer common argument type for comparison operation ",
        "Cannot infer common argument type for logical boolean operation ",
        "Cannot infer common argument type for bitwise operation ",
        "Cannot infer common string type for string concat operation ",
    ];
    let rest = phrases.iter().find_map(|phrase| message.split(phrase).nth(1))?;
    let expression = rest.split(" to valid types").next().unwrap_or(rest).trim();
    let shown: Vec<String> = expression.split(' ').map(postgres_type_word).collect();
    Some(
        SqlError::new(SqlState::UndefinedFunction, format!("operator does not exist: {}", shown.join(" ")))
            .with_hint("No operator matches the given name and argument types. You might need to add explicit type casts."),
    )
}

/// Wrong types or numbers of arguments.
fn signature_mismatch(message: &str) -> Option<SqlError> {
    let is_mismatch = message.contains("No function matches the given name and argument types")
        || message.contains("does not support zero arguments")
        || message.contains("Failed to coerce arguments")
        || (message.contains("Function '") && (message.contains("expect") || message.contains("requires")))
        || message.contains("Error during planning: Execution error: ");
    if !is_mismatch {
        return None;
    }
    let call = message.split("argument types '").nth(1).and_then(|rest| rest.split('\'').next()).map(postgres_type_word);
    let name = message.split("unction '").nth(1).and_then(|rest| rest.split('\'').next());
    let message = match (call, name) {
        (Some(call), _) => format!("function {call} does not exist"),
        (None, Some(name)) => format!("function {name} does not exist for these arguments"),
        (None, None) => sentence(message),
    };
    Some(
        SqlError::new(SqlState::UndefinedFunction, message)
            .with_hint("No function matches the given name and argument types. You might need to add explicit type casts."),
    )
}

/// Arrow's names of types in a text, as Postgres's.
fn postgres_type_word(text: &str) -> String {
    const NAMES: [(&str, &str); 15] = [
        ("Decimal128(38, 10)", "numeric"),
        ("Timestamp(Microsecond, None)", "timestamp"),
        ("Timestamp(µs)", "timestamp"),
        ("Timestamp(µs, \"+00:00\")", "timestamptz"),
        ("Interval(MonthDayNano)", "interval"),
        ("Boolean", "boolean"),
        ("Int16", "smallint"),
        ("Int32", "integer"),
        ("Int64", "bigint"),
        ("Float32", "real"),
        ("Float64", "double precision"),
        ("Utf8View", "text"),
        ("Utf8", "text"),
        ("Date32", "date"),
        ("Binary", "bytea"),
    ];
    let mut named = NAMES.iter().fold(text.to_string(), |text, (arrow, postgres)| text.replace(arrow, postgres));
    // From the inside out: a list of lists is an array too.
    while let Some(start) = named.rfind("List(") {
        let Some(length) = named[start..].find(')') else { break };
        let item = named[start + "List(".len()..start + length].split(',').next().unwrap_or_default();
        let array = if item.ends_with("[]") { item.to_string() } else { format!("{item}[]") };
        named.replace_range(start..=start + length, &array);
    }
    named
}

fn execution_error(message: &str) -> SqlError {
    let lower = message.to_lowercase();
    if lower.contains("divide by zero") || lower.contains("division by zero") {
        return SqlError::new(SqlState::DivisionByZero, "division by zero");
    }
    if let Some(error) = numeric_overflow(message) {
        return error;
    }
    if lower.contains("overflow")
        || lower.contains("too large to store")
        || lower.contains("out of range")
        || lower.contains("too small to store")
    {
        return SqlError::new(SqlState::NumericValueOutOfRange, "value out of range")
            .with_detail(format!("{}.", sentence(message)));
    }
    if let Some(name) = message.strip_prefix("Placeholder '").and_then(|rest| rest.split('\'').next()) {
        return SqlError::new(SqlState::UndefinedParameter, format!("there is no parameter {name}"));
    }
    if lower.contains("negative substring length") {
        return SqlError::new(SqlState::SubstringError, "negative substring length not allowed");
    }
    if lower.contains("more than one row") {
        return SqlError::new(SqlState::CardinalityViolation, "more than one row returned by a subquery used as an expression");
    }
    if lower.contains("cast") || lower.contains("parsing") {
        return cast_error(message);
    }
    SqlError::new(SqlState::DataException, sentence(message))
}

/// `1234.50 is too large to store in a Decimal128 of precision 5. Max is 999.99`.
fn numeric_overflow(message: &str) -> Option<SqlError> {
    let rest = message.split(" to store in a Decimal128 of precision ").nth(1)?;
    let (precision, bound) = rest.split_once(". M")?;
    let digits = bound.trim_end_matches('.').rsplit(' ').next()?;
    let scale = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let whole = precision.parse::<usize>().ok()?.checked_sub(scale)?;
    Some(SqlError::new(SqlState::NumericValueOutOfRange, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less than 10^{whole}."
    )))
}

/// `Cannot cast string 'x' to value of Int64 type`, `Error parsing timestamp from 'x': …`.
fn cast_error(message: &str) -> SqlError {
    let value = message.split('\'').nth(1);
    let target = message.split("to value of ").nth(1).and_then(|rest| rest.split(" type").next()).map(postgres_type_word);
    if let (Some(value), Some(target)) = (value, &target) {
        return SqlError::new(
            SqlState::InvalidTextRepresentation,
            format!("invalid input syntax for type {target}: \"{value}\""),
        );
    }
    if message.contains("parsing timestamp") || message.contains("parsing date") || message.contains("parsing time") {
        let value = value.unwrap_or_default();
        let what = if message.contains("timestamp") { "timestamp" } else { "date/time" };
        return SqlError::new(SqlState::InvalidDatetimeFormat, format!("invalid input syntax for type {what}: \"{value}\""));
    }
    let carried = message.strip_prefix("Can't cast value ").and_then(|rest| rest.split(" to type ").nth(1));
    if let Some(target) =
        carried.map(|target| postgres_type_word(target.trim_end_matches('.'))).filter(|t| !t.starts_with(char::is_uppercase))
    {
        return SqlError::new(SqlState::NumericValueOutOfRange, format!("{target} out of range"));
    }
    if message.contains("Overflowing on")
        || message.contains("Can't cast value")
        || message.contains("out of range")
        || message.contains("overflow")
    {
        return SqlError::new(SqlState::NumericValueOutOfRange, "value out of range")
            .with_detail(format!("{}.", sentence(message)));
    }
    if message.contains("Casting from") || message.contains("not supported") {
        return SqlError::new(SqlState::CannotCoerce, postgres_type_word(&sentence(message)));
    }
    SqlError::new(SqlState::InvalidTextRepresentation, sentence(message))
}

fn internal_error(message: &str) -> SqlError {
    // The first line alone: what follows asks the user to report to another project.
    SqlError::internal(message.lines().next().unwrap_or("an internal error").trim().to_string())
}

/// The first line of a message as ours begin: lower case, without a full stop, without hidden parts of names.
fn sentence(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default().trim();
    let line = line.strip_prefix("Error during planning: ").unwrap_or(line).trim_end_matches('.');
    let mut shown = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        if c == crate::rewrite::HIDDEN_SUFFIX {
            while chars.peek().is_some_and(char::is_ascii_digit) {
                chars.next();
            }
        } else {
            shown.push(c);
        }
    }
    let mut rest = shown.chars();
    match (rest.next(), rest.next()) {
        // A word in capitals (`ORDER BY …`) stays.
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(std::iter::once(second)).chain(rest).collect()
        }
        _ => shown,
    }
}

#[cfg(test)]
mod tests;
