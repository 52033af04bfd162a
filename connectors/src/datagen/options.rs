//! The `WITH` options.

use super::values::Rule;
use std::collections::BTreeMap;
use thalweg_catalog::options::Options;
use thalweg_catalog::{Column, SqlError, SqlResult, suggest};

/// The options of a datagen source.
#[derive(Clone, PartialEq, Debug)]
pub struct DatagenOptions {
    /// `rows`: how many rows there are; without it the source never ends.
    pub rows: Option<u64>,
    /// `rate`: how many rows come a second, by the clock, all splits together; 0, the default, for as fast as possible.
    pub rate: Option<u64>,
    /// `splits`: to how many splits the rows are dealt; 1 by default.
    pub splits: u64,
    /// `fields.<column>.…`: the rule of each column.
    pub(super) rules: Vec<Rule>,
}

impl DatagenOptions {
    /// Reads the options, refusing those that are not known.
    ///
    /// # Errors
    /// `22023` for an unknown option or a value that can't be one; `0A000` for a column of a type that can't be made up.
    pub fn parse(options: &BTreeMap<String, String>, columns: &[Column]) -> SqlResult<DatagenOptions> {
        let mut options = Options::new("connector \"datagen\"", options);
        let rows = options.parsed("rows")?;
        let rate = options.parsed("rate")?.filter(|rate| *rate > 0);
        let splits = options.parsed("splits")?.unwrap_or(1);
        let mut of_column: BTreeMap<usize, BTreeMap<String, String>> = BTreeMap::new();
        for (name, value) in options.with_prefix("fields.") {
            let Some((column, option)) = name.rsplit_once('.') else {
                return Err(SqlError::invalid_parameter(format!(
                    "option \"fields.{name}\" of connector \"datagen\" names no rule"
                ))
                .with_hint("Write fields.<column>.kind = 'sequence' or such."));
            };
            let Some(place) = find(columns, column) else {
                let hint = suggest::hint(column, columns.iter().map(|column| column.name.as_str()));
                return Err(SqlError::invalid_parameter(format!("option \"fields.{name}\" is for a column that is not there"))
                    .with_hint(hint));
            };
            of_column.entry(place).or_default().insert(option.to_string(), value);
        }
        options.finish()?;
        if !(1..=1024).contains(&splits) {
            return Err(SqlError::invalid_parameter("option \"splits\" of connector \"datagen\" must be from 1 to 1024"));
        }
        let rules = columns
            .iter()
            .enumerate()
            .map(|(place, column)| Rule::parse(column, place as u64, &of_column.remove(&place).unwrap_or_default()));
        Ok(DatagenOptions { rows, rate, splits, rules: rules.collect::<SqlResult<_>>()? })
    }
}

/// The column of this name, else of this name in another case.
fn find(columns: &[Column], name: &str) -> Option<usize> {
    let exact = columns.iter().position(|column| column.name == name);
    exact.or_else(|| columns.iter().position(|column| column.name.to_lowercase() == name.to_lowercase()))
}
