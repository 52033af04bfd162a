//! Names of types that users created: each becomes the text of the whole type, which is read without the catalog from there on.

use crate::types;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Expr, Ident, ObjectName, TypedString, VisitMut, VisitorMut};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use thalweg_catalog::{Catalog, EnumType, ObjectId, SqlError, SqlResult, SqlState};

/// Looks up the types of users in casts, by the path where no schema is written. Names of other types stay as they are. Gives which
/// types were found.
///
/// # Errors
/// `42704` for the text of a type that is gone.
pub fn resolve_types<V: VisitMut>(part: &mut V, catalog: &Catalog, search_path: &[String]) -> SqlResult<BTreeSet<ObjectId>> {
    let mut resolver = Resolver { catalog, search_path, found: BTreeSet::new() };
    match part.visit(&mut resolver) {
        ControlFlow::Continue(()) => Ok(resolver.found),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// [`resolve_types`] of a type that stands alone, such as a column's.
///
/// # Errors
/// As there.
pub fn resolve_type(data_type: &mut DataType, catalog: &Catalog, search_path: &[String]) -> SqlResult<()> {
    Resolver { catalog, search_path, found: BTreeSet::new() }.resolve(data_type)
}

struct Resolver<'a> {
    catalog: &'a Catalog,
    search_path: &'a [String],
    found: BTreeSet<ObjectId>,
}

impl VisitorMut for Resolver<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = expr else {
            return ControlFlow::Continue(());
        };
        self.resolve(data_type).map_or_else(|e| ControlFlow::Break(Box::new(e)), ControlFlow::Continue)
    }
}

impl Resolver<'_> {
    fn resolve(&mut self, data_type: &mut DataType) -> SqlResult<()> {
        match data_type {
            DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) => {
                self.resolve(item)
            }
            DataType::Custom(name, modifiers) if modifiers.is_empty() => {
                let found = match types::spelled(name) {
                    Some(of) => Some(self.current(of)?),
                    None => self.named(name),
                };
                if let Some(of) = found {
                    self.found.insert(of.id);
                    *name = ObjectName::from(Ident::with_quote('"', of.spelled()));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A type that is written out, if it is still what the catalog has.
    fn current(&self, of: EnumType) -> SqlResult<EnumType> {
        match self.catalog.entry(of.id).and_then(|object| object.enum_type()) {
            Some(known) if known == of => Ok(of),
            _ => Err(SqlError::new(SqlState::UndefinedObject, format!("type \"{of}\" does not exist"))),
        }
    }

    fn named(&self, name: &ObjectName) -> Option<EnumType> {
        let mut parts = name.0.iter().rev().map(|part| part.as_ident().map(|ident| crate::parse_fold(ident).value));
        let last = parts.next()??;
        let object = match parts.next() {
            Some(schema) => self.catalog.find_type(&schema?, &last)?,
            None if types::is_own(&last) => return None,
            None => self.search_path.iter().find_map(|schema| self.catalog.find_type(schema, &last))?,
        };
        object.enum_type()
    }
}

#[cfg(test)]
mod tests;
