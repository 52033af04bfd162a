//! `CREATE TYPE` and `ALTER TYPE … ADD VALUE`.

use super::{BindContext, place_schema};
use crate::statement::{AddLabel, CreateType, Name, Word};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use thalweg_catalog::catalog::{TEMPORARY_PREFIX, name_taken};
use thalweg_catalog::{Catalog, CatalogObject, EnumLabel, ObjectDefinition, ObjectId, SqlError, SqlResult, SqlState, suggest};

/// The longest label in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// The type that `CREATE TYPE` declares. Its arrays and its labels have the ids after its own.
///
/// # Errors
/// `42710` for a name that is taken or a label that is given twice, `42602` for a label that is too long, and those of the schema.
pub fn bind_create_type(create: &CreateType, context: &BindContext<'_>) -> SqlResult<CatalogObject> {
    let (name, catalog) = (&create.name, context.catalog);
    let schema = place_schema(name, context)?;
    if catalog.find(&schema, &name.name).or_else(|| catalog.find_type(&schema, &name.name)).is_some() {
        return Err(name_taken(&name.name, false).at(name.position));
    }
    if schema.starts_with(TEMPORARY_PREFIX) {
        return Err(SqlError::unsupported("only tables can be temporary").at(name.position));
    }
    let id = catalog.next_id();
    let array = ObjectId(id.0 + 1);
    let mut labels: Vec<EnumLabel> = vec![];
    let mut seen = BTreeSet::new();
    check_count(create.labels.len())?;
    for (word, place) in create.labels.iter().zip(1..=u16::MAX) {
        check_label(word)?;
        if !seen.insert(word.value.as_str()) {
            let message = format!("enum label \"{}\" used more than once", word.value);
            return Err(SqlError::new(SqlState::DuplicateObject, message).at(word.position));
        }
        let id = ObjectId(array.0 + u32::from(place));
        labels.push(EnumLabel { id, label: word.value.clone(), sort_order: f32::from(place) });
    }
    Ok(CatalogObject {
        id,
        schema,
        name: name.name.clone(),
        columns: vec![],
        definition: ObjectDefinition::Enum { array, labels },
        sql: context.sql.to_string(),
        depends_on: vec![],
        comment: None,
        column_comments: BTreeMap::new(),
        created_ms: context.now_ms,
    })
}

fn check_count(labels: usize) -> SqlResult<()> {
    if labels <= usize::from(u16::MAX) {
        Ok(())
    } else {
        Err(SqlError::new(SqlState::ProgramLimitExceeded, "too many enum labels"))
    }
}

fn check_label(word: &Word) -> SqlResult<()> {
    if word.value.len() <= LABEL_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(SqlState::InvalidName, format!("invalid enum label \"{}\"", word.value))
        .with_detail(format!("Labels must be {LABEL_BYTES_MAX} bytes or less."))
        .at(word.position))
}

/// The type that a name stands for: in its schema, or the first of the path that has it.
///
/// # Errors
/// `42704` with the nearest name.
pub fn find_type<'a>(name: &Name, catalog: &'a Catalog, search_path: &[String]) -> SqlResult<&'a Arc<CatalogObject>> {
    let found = match &name.schema {
        Some(schema) => catalog.find_type(schema, &name.name),
        None => search_path.iter().find_map(|schema| catalog.find_type(schema, &name.name)),
    };
    found.ok_or_else(|| {
        let shown = name.schema.iter().map(|schema| format!("{schema}.")).collect::<String>() + &name.name;
        let error = SqlError::new(SqlState::UndefinedObject, format!("type \"{shown}\" does not exist")).at(name.position);
        match suggest::nearest(&name.name, catalog.types().map(|object| object.name.as_str())) {
            Some(near) => error.with_hint(format!("Did you mean \"{near}\"?")),
            None => error,
        }
    })
}

/// The labels of a type with one more, of this id; none if it has it and that is fine.
///
/// # Errors
/// `42710` for a label that is there, `22023` for a neighbor that is not, `42602` for a label that is too long.
pub fn with_label(object: &CatalogObject, add: &AddLabel, id: ObjectId) -> SqlResult<Option<Vec<EnumLabel>>> {
    let ObjectDefinition::Enum { labels, .. } = &object.definition else {
        return Err(SqlError::internal(format!("object {} has no labels", object.id)));
    };
    check_label(&add.label)?;
    check_count(labels.len() + 1)?;
    let place_of = |word: &Word| labels.iter().position(|known| known.label == word.value);
    if place_of(&add.label).is_some() {
        let message = format!("enum label \"{}\" already exists", add.label.value);
        let error = SqlError::new(SqlState::DuplicateObject, message).at(add.label.position);
        return if add.if_not_exists { Ok(None) } else { Err(error) };
    }
    let place = match &add.neighbor {
        None => labels.len(),
        Some(word) => {
            let beside = place_of(word).ok_or_else(|| {
                SqlError::invalid_parameter(format!("\"{}\" is not an existing enum label", word.value)).at(word.position)
            })?;
            if add.before { beside } else { beside + 1 }
        }
    };
    let mut labels = labels.clone();
    let sort_order = between(place.checked_sub(1).map(|last| labels[last].sort_order), labels.get(place).map(|l| l.sort_order));
    labels.insert(place, EnumLabel { id, label: add.label.value.clone(), sort_order });
    // Numbers in between run out at some time.
    if !labels.is_sorted_by(|left, right| left.sort_order < right.sort_order) {
        labels.iter_mut().zip(1..=u16::MAX).for_each(|(label, place)| label.sort_order = f32::from(place));
    }
    Ok(Some(labels))
}

fn between(left: Option<f32>, right: Option<f32>) -> f32 {
    match (left, right) {
        (Some(left), Some(right)) => f32::midpoint(left, right),
        (Some(left), None) => left + 1.0,
        (None, Some(right)) => right - 1.0,
        (None, None) => 1.0,
    }
}

#[cfg(test)]
mod tests;
