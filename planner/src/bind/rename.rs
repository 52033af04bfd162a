//! What becomes of the texts that name an object when it gets another name.

use crate::parse;
use datafusion::sql::sqlparser::ast::{self, ObjectName, ObjectNamePart, TableFactor, VisitMut, VisitorMut};
use std::ops::ControlFlow;
use thalweg_catalog::{CatalogObject, SqlResult};

/// A query's text with `renamed` under its new name; none if the query does not name it. Where no alias stood, the old name
/// becomes one, so that qualified columns keep their meaning.
///
/// # Errors
/// A text that is no query, which no definition in the catalog is.
pub fn renamed_query(text: &str, renamed: &CatalogObject, new_name: &str) -> SqlResult<Option<String>> {
    let mut query = parse::parse_query(text)?;
    let mut rename = Rename { object: renamed, new_name, changed: false, hidden: vec![] };
    let _ = query.visit(&mut rename);
    Ok(rename.changed.then(|| query.to_string()))
}

struct Rename<'a> {
    object: &'a CatalogObject,
    new_name: &'a str,
    changed: bool,
    /// Common table expressions of the queries around, which hide relations of their names.
    hidden: Vec<Vec<String>>,
}

impl Rename<'_> {
    fn names_object(&self, name: &ObjectName) -> bool {
        let words: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(|i| crate::parse_fold(i).value).collect();
        match words.as_slice() {
            [only] => *only == self.object.name && !self.hidden.iter().flatten().any(|h| h == only),
            [.., schema, last] => *last == self.object.name && *schema == self.object.schema,
            [] => false,
        }
    }

    fn rename(&mut self, name: &mut ObjectName) {
        if let Some(ObjectNamePart::Identifier(ident)) = name.0.last_mut() {
            *ident = crate::rewrite::ident(self.new_name);
            self.changed = true;
        }
    }
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut ast::Query) -> ControlFlow<()> {
        let names = query.with.iter().flat_map(|with| &with.cte_tables);
        self.hidden.push(names.map(|cte| crate::parse_fold(&cte.alias.name).value).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut ast::Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, args, .. } = factor {
            match args {
                None if self.names_object(name) => {
                    if alias.is_none() {
                        let old = crate::rewrite::ident(&self.object.name);
                        *alias = Some(ast::TableAlias { explicit: true, name: old, columns: vec![] });
                    }
                    self.rename(name);
                }
                Some(args) => {
                    // The relation of a window function is its first argument, written like a column.
                    let first = args.args.first_mut();
                    if let Some(ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr))) = first
                        && self.rename_window_input(expr)
                        && alias.is_none()
                    {
                        let old = crate::rewrite::ident(&self.object.name);
                        *alias = Some(ast::TableAlias { explicit: true, name: old, columns: vec![] });
                    }
                }
                None => {}
            }
        }
        ControlFlow::Continue(())
    }
}

impl Rename<'_> {
    fn rename_window_input(&mut self, expr: &mut ast::Expr) -> bool {
        let parts = match expr {
            ast::Expr::Identifier(ident) => vec![ident.clone()],
            ast::Expr::CompoundIdentifier(parts) => parts.clone(),
            _ => return false,
        };
        let mut name = ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect());
        if !self.names_object(&name) {
            return false;
        }
        self.rename(&mut name);
        let mut idents: Vec<ast::Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
        *expr = match (idents.pop(), idents.is_empty()) {
            (Some(only), true) => ast::Expr::Identifier(only),
            (Some(last), false) => {
                idents.push(last);
                ast::Expr::CompoundIdentifier(idents)
            }
            (None, _) => return false,
        };
        true
    }
}
