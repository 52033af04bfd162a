//! Types of parameters that follow from how they are written: `$1::integer`, `LIMIT $2`.

use crate::functions::system_type;
use datafusion::sql::sqlparser::ast::{self, Expr, LimitClause, Query, Value, Visit, Visitor};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use thalweg_catalog::SqlType;

/// The types, by the place from 0 of the parameter; the first that is written counts.
pub(crate) fn written_parameter_types(query: &Query) -> BTreeMap<usize, SqlType> {
    let mut written = Written(BTreeMap::new());
    let _ = query.visit(&mut written);
    written.0
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

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
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
