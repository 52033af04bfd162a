//! Declared columns, their keys and their defaults.

use super::BindContext;
use crate::logical::Scope;
use crate::statement::{ColumnDefinition, CreateRelation, Word};
use crate::types::sql_type_in;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNode;
use datafusion::logical_expr::{Expr, ExprSchemable};
use std::collections::BTreeSet;
use thalweg_catalog::{Column, ObjectId, SqlError, SqlResult, SqlState, SqlType, suggest};

/// The declared columns, with what the primary key makes of them, and the key's places.
pub(super) fn declared(create: &CreateRelation, context: &BindContext<'_>) -> SqlResult<(Vec<Column>, Vec<usize>)> {
    let mut columns: Vec<Column> = vec![];
    for definition in &create.columns {
        if columns.iter().any(|c| c.name == definition.name.value) {
            return Err(duplicate(&definition.name));
        }
        columns.push(column(definition, context)?);
    }
    let inline: Vec<&ColumnDefinition> = create.columns.iter().filter(|c| c.primary_key).collect();
    let key_words: Vec<&Word> = match &create.primary_key {
        Some(words) => words.iter().collect(),
        None => inline.iter().map(|c| &c.name).collect(),
    };
    let mut key = vec![];
    for word in key_words {
        let place = place_of(&columns, word, &create.name.name)?;
        if key.contains(&place) {
            return Err(SqlError::new(
                SqlState::DuplicateColumn,
                format!("column \"{}\" appears twice in primary key constraint", word.value),
            )
            .at(word.position));
        }
        if let SqlType::Carried(of) = &columns[place].sql_type
            && !of.has_equality()
        {
            let message = format!("data type {of} has no default operator class for access method \"btree\"");
            let hint = "Values of this type can't be compared: make another column the key.";
            return Err(SqlError::new(SqlState::UndefinedObject, message).with_hint(hint).at(word.position));
        }
        columns[place].nullable = false;
        key.push(place);
    }
    Ok((columns, key))
}

/// The types of users that columns are of, in order of their ids.
pub(super) fn types_of(columns: &[Column]) -> Vec<ObjectId> {
    let ids: BTreeSet<ObjectId> = columns.iter().flat_map(|column| column.sql_type.enums()).map(|of| of.id).collect();
    ids.into_iter().collect()
}

/// The place of a column by its name.
pub(super) fn place_of(columns: &[Column], word: &Word, relation: &str) -> SqlResult<usize> {
    columns.iter().position(|c| c.name == word.value).ok_or_else(|| {
        let error =
            SqlError::new(SqlState::UndefinedColumn, format!("column \"{}\" does not exist in \"{relation}\"", word.value));
        let names = columns.iter().map(|c| c.name.as_str());
        let error = match suggest::nearest(&word.value, names) {
            Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
            None => error,
        };
        error.at(word.position)
    })
}

pub(super) fn duplicate(word: &Word) -> SqlError {
    SqlError::new(SqlState::DuplicateColumn, format!("column \"{}\" specified more than once", word.value)).at(word.position)
}

fn column(definition: &ColumnDefinition, context: &BindContext<'_>) -> SqlResult<Column> {
    let sql_type = sql_type_in(&definition.data_type, context.catalog, context.search_path);
    let sql_type = sql_type.map_err(|e| e.at(definition.type_position))?;
    let column = Column { nullable: !definition.not_null, ..Column::new(&definition.name.value, sql_type) };
    let Some((expr, text)) = &definition.default else { return Ok(column) };
    let schema = DFSchema::empty();
    let scope = Scope { catalog: context.catalog, relations: context.relations, search_path: context.search_path };
    let position = definition.name.position;
    let bound = context.planner.plan_expr(expr, &schema, &scope).map_err(|mut error| {
        if error.state == SqlState::UndefinedColumn {
            error = SqlError::unsupported("cannot use column reference in DEFAULT expression");
        }
        let place = error.position.unwrap_or(position);
        error.at(place)
    })?;
    let holds_query = bound
        .exists(|e| Ok(matches!(e, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_))))
        .map_err(|e| crate::sql_error(&e))?;
    if holds_query {
        return Err(SqlError::unsupported("cannot use subquery in DEFAULT expression").at(position));
    }
    let found = bound.get_type(&schema).map_err(|e| crate::sql_error(&e).at(position))?;
    if !crate::dml::is_assignable(&found, &column.sql_type, matches!(bound, Expr::Literal(..))) {
        return Err(SqlError::new(
            SqlState::DatatypeMismatch,
            format!("column \"{}\" is of type {} but default expression is of another type", column.name, column.sql_type),
        )
        .with_hint("You will need to rewrite or cast the expression.")
        .at(position));
    }
    Ok(Column { default: Some(text.clone()), ..column })
}
