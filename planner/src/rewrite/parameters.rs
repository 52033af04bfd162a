//! Types of parameters that follow from how they are written: `$1::integer`, `LIMIT $2`.

use super::series;
use crate::functions::system_type;
use datafusion::sql::sqlparser::ast::{self, Expr, Function, LimitClause, Query, TableFactor, Value, Visit, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use thalweg_catalog::SqlType;

/// The types, by the place from 0 of the parameter; the first that is written counts.
pub(crate) fn written_parameter_types(query: &Query) -> BTreeMap<usize, SqlType> {
    let mut written = Written(BTreeMap::new());
    let _ = query.visit(&mut written);
    written.0
}

/// The places, from 0, of the parameters in a query.
pub fn parameter_places(query: &Query) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    let _ = ast::visit_expressions(query, |expr| {
        places.extend(place_of(expr));
        ControlFlow::<()>::Continue(())
    });
    places
}

/// The OIDs of parameters that are cast to a type of Postgres's own catalog, which no [`SqlType`] tells.
pub fn written_parameter_oids(query: &Query) -> BTreeMap<usize, u32> {
    let mut oids = BTreeMap::new();
    let _ = ast::visit_expressions(query, |expr| {
        if let Expr::Cast { expr, data_type, .. } = expr
            && let (Some(place), Some(oid)) = (place_of(expr), system_type::oid(data_type))
        {
            oids.entry(place).or_insert(oid);
        }
        ControlFlow::<()>::Continue(())
    });
    oids
}

struct Written(BTreeMap<usize, SqlType>);

impl Written {
    /// Types that follow from the function: where there is but one of its name.
    fn note_arguments(&mut self, function: &Function) {
        let args = series::plain(&function.args);
        match function.name.0.last().and_then(|part| part.as_ident()).map(|ident| crate::parse_fold(ident).value).as_deref() {
            Some("pg_sleep") => args.into_iter().for_each(|arg| self.note(arg, SqlType::Float8)),
            Some(series::NAME) => self.note_series(args),
            _ => {}
        }
    }

    fn note_series(&mut self, args: Vec<&Expr>) {
        let is_whole = |expr: &&Expr| match expr {
            Expr::Value(value) => matches!(&value.value, Value::Number(text, _) if !text.contains('.')),
            _ => false,
        };
        if args.iter().any(is_whole) {
            args.into_iter().for_each(|arg| self.note(arg, SqlType::Int4));
        }
    }

    fn note(&mut self, expr: &Expr, sql_type: SqlType) {
        if let Some(place) = place_of(expr) {
            self.0.entry(place).or_insert(sql_type);
        }
    }
}

fn place_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => place_of(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1),
            _ => None,
        },
        _ => None,
    }
}

impl Visitor for Written {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            let counts = limit.iter().chain(offset.iter().map(|o| &o.value));
            counts.for_each(|count| self.note(count, SqlType::Int8));
        }
        ControlFlow::Continue(())
    }

    /// `generate_series(1, $1)` counts in the type of its literals.
    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.note_series(series::arguments(factor));
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr {
            self.note_arguments(function);
        }
        if let Expr::Cast { expr, data_type, kind: ast::CastKind::Cast | ast::CastKind::DoubleColon, .. } = expr {
            let data_type = match system_type::carried(data_type) {
                Some((_, carried)) => carried,
                None => crate::types::whole_type(data_type),
            };
            if let Ok(sql_type) = crate::types::sql_type(&data_type) {
                self.note(expr, sql_type);
            }
        }
        ControlFlow::Continue(())
    }
}
