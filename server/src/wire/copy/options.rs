//! The options of `COPY`, checked as Postgres checks them.

use datafusion::sql::sqlparser::ast;
use thalweg_catalog::{SqlError, SqlResult, SqlState};

/// The shape of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

/// How rows are written as bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CopyOptions {
    /// The shape of the bytes.
    pub format: CopyFormat,
    /// What stands between two columns.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// Whether a first line holds the columns' names: written, or skipped.
    pub header: bool,
    /// What stands around a CSV value.
    pub quote: u8,
    /// What stands before a quote in a quoted CSV value.
    pub escape: u8,
    /// CSV columns that are quoted whatever they hold.
    pub force_quote: ForcedColumns,
    /// CSV columns in which nothing is NULL.
    pub force_not_null: Vec<String>,
    /// CSV columns in which even a quoted null string is NULL.
    pub force_null: Vec<String>,
}

/// Which columns an option is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ForcedColumns {
    /// All of them.
    All,
    /// Those of these names.
    Named(Vec<String>),
}

impl Default for CopyOptions {
    fn default() -> Self {
        CopyOptions::of_format(CopyFormat::Text)
    }
}

impl CopyOptions {
    /// The options that a format has when none are given.
    pub fn of_format(format: CopyFormat) -> CopyOptions {
        let (delimiter, null) = if format == CopyFormat::Csv { (b',', "") } else { (b'\t', "\\N") };
        CopyOptions {
            format,
            delimiter,
            null: null.to_string(),
            header: false,
            quote: b'"',
            escape: b'"',
            force_quote: ForcedColumns::Named(vec![]),
            force_not_null: vec![],
            force_null: vec![],
        }
    }

    /// The options of a parsed statement, in the newer form or the one from before Postgres 9.
    ///
    /// # Errors
    /// `42601`, `22023` or `0A000` for options that don't exist or don't go together.
    pub fn from_ast(options: &[ast::CopyOption], legacy: &[ast::CopyLegacyOption]) -> SqlResult<CopyOptions> {
        let mut given = Given::default();
        for option in options {
            given.add(option)?;
        }
        for option in legacy {
            given.add_legacy(option)?;
        }
        given.check()
    }
}

/// The options as they were given, before defaults.
#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    delimiter: Option<char>,
    null: Option<String>,
    header: Option<bool>,
    quote: Option<char>,
    escape: Option<char>,
    force_quote: Option<ForcedColumns>,
    force_not_null: Option<Vec<String>>,
    force_null: Option<Vec<String>>,
}

fn names(idents: &[ast::Ident]) -> Vec<String> {
    idents
        .iter()
        .map(|ident| if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() })
        .collect()
}

fn set<T>(slot: &mut Option<T>, value: T) -> SqlResult<()> {
    if slot.is_some() {
        return Err(SqlError::syntax("conflicting or redundant options"));
    }
    *slot = Some(value);
    Ok(())
}

impl Given {
    fn add(&mut self, option: &ast::CopyOption) -> SqlResult<()> {
        match option {
            ast::CopyOption::Format(name) => set(&mut self.format, format_named(&name.value)?),
            // Without effect on what can be seen.
            ast::CopyOption::Freeze(_) => Ok(()),
            ast::CopyOption::Delimiter(c) => set(&mut self.delimiter, *c),
            ast::CopyOption::Null(text) => set(&mut self.null, text.clone()),
            ast::CopyOption::Header(on) => set(&mut self.header, *on),
            ast::CopyOption::Quote(c) => set(&mut self.quote, *c),
            ast::CopyOption::Escape(c) => set(&mut self.escape, *c),
            ast::CopyOption::ForceQuote(columns) => set(&mut self.force_quote, ForcedColumns::Named(names(columns))),
            ast::CopyOption::ForceNotNull(columns) => set(&mut self.force_not_null, names(columns)),
            ast::CopyOption::ForceNull(columns) => set(&mut self.force_null, names(columns)),
            ast::CopyOption::Encoding(name) => {
                let plain: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
                if plain.eq_ignore_ascii_case("utf8") || plain.eq_ignore_ascii_case("unicode") {
                    return Ok(());
                }
                Err(SqlError::unsupported(format!("COPY encoding \"{name}\" is not supported"))
                    .with_hint("Only UTF8 is supported."))
            }
        }
    }

    fn add_legacy(&mut self, option: &ast::CopyLegacyOption) -> SqlResult<()> {
        match option {
            ast::CopyLegacyOption::Binary => set(&mut self.format, CopyFormat::Binary),
            ast::CopyLegacyOption::Delimiter(c) => set(&mut self.delimiter, *c),
            ast::CopyLegacyOption::Null(text) => set(&mut self.null, text.clone()),
            ast::CopyLegacyOption::Header => set(&mut self.header, true),
            ast::CopyLegacyOption::Csv(csv) => {
                set(&mut self.format, CopyFormat::Csv)?;
                csv.iter().try_for_each(|option| self.add_legacy_csv(option))
            }
            other => Err(SqlError::unsupported(format!("COPY option {other} is not supported"))),
        }
    }

    fn add_legacy_csv(&mut self, option: &ast::CopyLegacyCsvOption) -> SqlResult<()> {
        match option {
            ast::CopyLegacyCsvOption::Header => set(&mut self.header, true),
            ast::CopyLegacyCsvOption::Quote(c) => set(&mut self.quote, *c),
            ast::CopyLegacyCsvOption::Escape(c) => set(&mut self.escape, *c),
            ast::CopyLegacyCsvOption::ForceQuote(columns) => set(&mut self.force_quote, ForcedColumns::Named(names(columns))),
            ast::CopyLegacyCsvOption::ForceNotNull(columns) => set(&mut self.force_not_null, names(columns)),
        }
    }

    fn check(self) -> SqlResult<CopyOptions> {
        let format = self.format.unwrap_or_default();
        let csv = format == CopyFormat::Csv;
        if format == CopyFormat::Binary {
            let refused = [("DELIMITER", self.delimiter.is_some()), ("NULL", self.null.is_some())];
            if let Some((name, _)) = refused.iter().find(|(_, given)| *given) {
                return Err(SqlError::syntax(format!("cannot specify {name} in BINARY mode")));
            }
            if self.header == Some(true) {
                return Err(SqlError::unsupported("cannot specify HEADER in BINARY mode"));
            }
        }
        if !csv {
            let csv_only = [
                ("quote", self.quote.is_some()),
                ("escape", self.escape.is_some()),
                ("force quote", self.force_quote.is_some()),
                ("force not null", self.force_not_null.is_some()),
                ("force null", self.force_null.is_some()),
            ];
            if let Some((name, _)) = csv_only.iter().find(|(_, given)| *given) {
                return Err(SqlError::unsupported(format!("COPY {name} available only in CSV mode")));
            }
        }
        let defaults = CopyOptions::of_format(format);
        let quote = self.quote.map_or(Ok(defaults.quote), |c| one_byte("quote", c))?;
        let checked = CopyOptions {
            format,
            delimiter: self.delimiter.map_or(Ok(defaults.delimiter), |c| one_byte("delimiter", c))?,
            null: self.null.unwrap_or(defaults.null),
            header: self.header.unwrap_or(false),
            quote,
            escape: self.escape.map_or(Ok(quote), |c| one_byte("escape", c))?,
            force_quote: self.force_quote.unwrap_or(defaults.force_quote),
            force_not_null: self.force_not_null.unwrap_or_default(),
            force_null: self.force_null.unwrap_or_default(),
        };
        check_bytes(&checked)?;
        Ok(checked)
    }
}

/// Refuses choices under which a line could be read in two ways.
fn check_bytes(options: &CopyOptions) -> SqlResult<()> {
    let invalid = |message: &str| Err(SqlError::invalid_parameter(message));
    if matches!(options.delimiter, b'\n' | b'\r') {
        return invalid("COPY delimiter cannot be newline or carriage return");
    }
    if options.null.contains(['\n', '\r']) {
        return invalid("COPY null representation cannot use newline or carriage return");
    }
    if options.format == CopyFormat::Text && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&options.delimiter) {
        return invalid(&format!("COPY delimiter cannot be \"{}\"", char::from(options.delimiter)));
    }
    if options.format != CopyFormat::Binary && options.null.as_bytes().contains(&options.delimiter) {
        return invalid("COPY delimiter must not appear in the NULL specification");
    }
    if options.format == CopyFormat::Csv {
        if options.delimiter == options.quote {
            return invalid("COPY delimiter and quote must be different");
        }
        if options.null.as_bytes().contains(&options.quote) {
            return invalid("CSV quote character must not appear in the NULL specification");
        }
    }
    Ok(())
}

fn format_named(name: &str) -> SqlResult<CopyFormat> {
    match name.to_lowercase().as_str() {
        "text" => Ok(CopyFormat::Text),
        "csv" => Ok(CopyFormat::Csv),
        "binary" => Ok(CopyFormat::Binary),
        _ => Err(SqlError::new(SqlState::InvalidParameterValue, format!("COPY format \"{name}\" not recognized"))),
    }
}

fn one_byte(what: &str, c: char) -> SqlResult<u8> {
    u8::try_from(c)
        .ok()
        .filter(u8::is_ascii)
        .ok_or_else(|| SqlError::unsupported(format!("COPY {what} must be a single one-byte character")))
}
