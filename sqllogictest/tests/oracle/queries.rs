//! Random queries of what views can keep up to date.

use crate::expressions::{Scope, predicate, scalar, some_type};
use crate::tables::Relation;
use crate::types::{Type, one_of};
use rand::Rng;
use rand::rngs::StdRng;

/// A query, and the types of its columns, which are called `c0`, `c1` and so on.
#[derive(Clone, Debug)]
pub struct Query {
    pub sql: String,
    pub types: Vec<Type>,
}

impl Query {
    /// The columns of this query where it is called `name`.
    pub fn relation(&self, name: &str) -> Relation {
        let columns = self.types.iter().enumerate().map(|(at, ty)| (format!("c{at}"), *ty)).collect();
        Relation { name: name.to_string(), columns }
    }
}

/// Makes queries over these relations.
pub struct Queries<'a> {
    pub relations: &'a [Relation],
    pub random: &'a mut StdRng,
    /// Aliases given so far, so that no two are the same.
    pub aliases: usize,
}

impl Queries<'_> {
    /// A query with so many levels of queries inside at the most.
    pub fn query(&mut self, depth: usize) -> Query {
        match self.random.random_range(0..14) {
            0..4 => self.select(depth),
            4..8 => self.grouped(depth),
            8 => self.distinct(depth),
            9 => self.union(depth),
            10 => self.set_difference(depth),
            11 => self.limited(depth),
            12 => self.best_of_each(depth),
            _ => self.with(depth),
        }
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("r{}", self.aliases)
    }

    /// `SELECT` of expressions of random types.
    fn select(&mut self, depth: usize) -> Query {
        let (from, scope) = self.from(depth);
        let types: Vec<Type> = (0..self.random.random_range(1..5)).map(|_| some_type(&scope, self.random)).collect();
        self.shown(&types, &from, &scope, depth)
    }

    /// `SELECT` of expressions of these types.
    fn select_of(&mut self, types: &[Type], depth: usize) -> Query {
        let (from, scope) = self.from(depth);
        self.shown(types, &from, &scope, depth)
    }

    fn shown(&mut self, types: &[Type], from: &str, scope: &Scope, depth: usize) -> Query {
        let shown = named(types.iter().map(|ty| scalar(*ty, scope, 2, self.random)));
        let sql = format!("SELECT {shown} FROM {from}{}", self.filter(scope, depth));
        Query { sql, types: types.to_vec() }
    }

    fn grouped(&mut self, depth: usize) -> Query {
        let (from, scope) = self.from(depth);
        let mut types = vec![];
        let mut shown = vec![];
        for _ in 0..self.random.random_range(0..3) {
            let ty = some_type(&scope, self.random);
            let deep = usize::from(self.random.random_bool(0.4));
            shown.push(scalar(ty, &scope, deep, self.random));
            types.push(ty);
        }
        let keys: Vec<String> = (1..=shown.len()).map(|at| at.to_string()).collect();
        for _ in 0..self.random.random_range(1..4) {
            let (sql, ty) = self.aggregate(&scope);
            shown.push(sql);
            types.push(ty);
        }
        let mut sql = format!("SELECT {} FROM {from}{}", named(shown.into_iter()), self.filter(&scope, depth));
        if !keys.is_empty() {
            sql.push_str(&format!(" GROUP BY {}", keys.join(", ")));
        }
        if self.random.random_bool(0.25) {
            let (aggregate, ty) = self.aggregate(&scope);
            sql.push_str(&format!(
                " HAVING {aggregate} {} {}",
                one_of(self.random, &["=", ">", "<=", "<>"]),
                ty.literal(self.random)
            ));
        }
        Query { sql, types }
    }

    /// An aggregate and its type.
    fn aggregate(&mut self, scope: &Scope) -> (String, Type) {
        let deep = usize::from(self.random.random_bool(0.4));
        let mut of = |ty: Type| scalar(ty, scope, deep, self.random);
        let (integer, double, numeric, boolean) = (of(Type::Int), of(Type::Double), of(Type::Numeric), of(Type::Boolean));
        let (small, big) = (of(Type::SmallInt), of(Type::BigInt));
        let any = some_type(scope, self.random);
        let ordered = one_of(
            self.random,
            &[
                Type::SmallInt,
                Type::BigInt,
                Type::Numeric,
                Type::Double,
                Type::Text,
                Type::Date,
                Type::Timestamp,
                Type::TimestampTz,
            ],
        );
        let (value, comparable) = (scalar(any, scope, deep, self.random), scalar(ordered, scope, deep, self.random));
        let (sql, ty) = match self.random.random_range(0..18) {
            0 | 1 => ("count(*)".to_string(), Type::BigInt),
            2 => (format!("count({value})"), Type::BigInt),
            3 => (format!("count(DISTINCT {value})"), Type::BigInt),
            4 => (format!("sum({integer})"), Type::BigInt),
            5 => (format!("sum({small})"), Type::BigInt),
            6 => (format!("sum({big})::bigint"), Type::BigInt),
            7 => (format!("sum({double})"), Type::Double),
            8 => (format!("sum({numeric})::numeric(12, 2)"), Type::Numeric),
            9 => (format!("sum(DISTINCT {integer})"), Type::BigInt),
            10 => (format!("avg({integer})::numeric(12, 2)"), Type::Numeric),
            11 => (format!("avg({double})"), Type::Double),
            12 => (format!("bool_and({boolean})"), Type::Boolean),
            13 => (format!("bool_or({boolean})"), Type::Boolean),
            14 | 15 => (format!("min({comparable})"), ordered),
            _ => (format!("max({comparable})"), ordered),
        };
        if sql.contains("::") || self.random.random_bool(0.75) {
            return (sql, ty);
        }
        (format!("{sql} FILTER (WHERE {})", predicate(scope, 1, self.random)), ty)
    }

    fn distinct(&mut self, depth: usize) -> Query {
        let inner = self.select(depth);
        Query { sql: inner.sql.replacen("SELECT", "SELECT DISTINCT", 1), types: inner.types }
    }

    fn union(&mut self, depth: usize) -> Query {
        let types: Vec<Type> = (0..self.random.random_range(1..4)).map(|_| one_of(self.random, &Type::ALL)).collect();
        let mut parts = vec![];
        for _ in 0..self.random.random_range(2..4) {
            parts.push(self.select_of(&types, depth.saturating_sub(1)).sql);
        }
        Query { sql: parts.join(one_of(self.random, &[" UNION ALL ", " UNION "])), types }
    }

    fn set_difference(&mut self, depth: usize) -> Query {
        let types: Vec<Type> = (0..self.random.random_range(1..3)).map(|_| one_of(self.random, &Type::ALL)).collect();
        let (a, b) = (self.select_of(&types, depth.saturating_sub(1)), self.select_of(&types, depth.saturating_sub(1)));
        Query { sql: format!("{} {} {}", a.sql, one_of(self.random, &["EXCEPT", "INTERSECT"]), b.sql), types }
    }

    /// The first rows in an order in which only equal rows tie.
    fn limited(&mut self, depth: usize) -> Query {
        let inner = self.query(depth.saturating_sub(1));
        let alias = self.alias();
        let relation = inner.relation(&alias);
        let order = self.order(&relation.scope(&alias));
        let offset = if self.random.random_bool(0.3) { " OFFSET 1" } else { "" };
        let sql =
            format!("SELECT * FROM ({}) AS {alias} ORDER BY {order} LIMIT {}{offset}", inner.sql, self.random.random_range(1..5));
        Query { sql, types: inner.types }
    }

    fn best_of_each(&mut self, depth: usize) -> Query {
        let inner = self.query(depth.saturating_sub(1));
        let (alias, ranked) = (self.alias(), self.alias());
        let scope = inner.relation(&alias).scope(&alias);
        let (part, order) = (one_of(self.random, &(0..scope.len()).collect::<Vec<_>>()), self.order(&scope));
        let columns: Vec<String> = (0..scope.len()).map(|at| format!("c{at}")).collect();
        let sql = format!(
            "SELECT {} FROM (SELECT {alias}.*, row_number() OVER (PARTITION BY {} ORDER BY {order}) AS place FROM ({}) AS {alias}) AS {ranked} WHERE place <= {}",
            columns.join(", "),
            scope[part].0,
            inner.sql,
            self.random.random_range(1..4)
        );
        Query { sql, types: inner.types }
    }

    fn order(&mut self, scope: &Scope) -> String {
        let keys: Vec<String> = scope
            .iter()
            .map(|(name, _)| format!("{name}{}", one_of(self.random, &["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])))
            .collect();
        keys.join(", ")
    }

    fn with(&mut self, depth: usize) -> Query {
        let inner = self.query(depth.saturating_sub(1));
        let name = self.alias();
        let mut relations = self.relations.to_vec();
        // Most likely the query reads it, and perhaps more than once.
        relations.extend(std::iter::repeat_n(inner.relation(&name), 2 * relations.len()));
        let mut outer = Queries { relations: &relations, random: &mut *self.random, aliases: self.aliases };
        let query = if outer.random.random_bool(0.5) { outer.select(0) } else { outer.grouped(0) };
        self.aliases = outer.aliases;
        Query { sql: format!("WITH {name} AS ({}) {}", inner.sql, query.sql), types: query.types }
    }

    /// A relation or a query as one, and its columns.
    fn one_relation(&mut self, depth: usize) -> (String, Scope) {
        let alias = self.alias();
        if depth > 0 && self.random.random_bool(0.2) {
            let inner = self.query(depth - 1);
            return (format!("({}) AS {alias}", inner.sql), inner.relation(&alias).scope(&alias));
        }
        let at = self.random.random_range(0..self.relations.len());
        let relation = &self.relations[at];
        (format!("{} AS {alias}", relation.name), relation.scope(&alias))
    }

    /// One relation, or two or three joined.
    fn from(&mut self, depth: usize) -> (String, Scope) {
        let (mut from, mut scope) = self.one_relation(depth);
        let joins = one_of(self.random, &[0, 0, 0, 1, 1, 2]);
        for _ in 0..joins {
            let (other, columns) = self.one_relation(depth);
            let pairs: Vec<(&str, &str)> = scope
                .iter()
                .flat_map(|(a, left)| {
                    columns.iter().filter(|(_, right)| left.compares_with(*right)).map(move |(b, _)| (a.as_str(), b.as_str()))
                })
                .collect();
            if pairs.is_empty() {
                continue;
            }
            let (a, b) = one_of(self.random, &pairs);
            let mut condition = format!("{a} = {b}");
            scope.extend(columns);
            if self.random.random_bool(0.3) {
                condition.push_str(&format!(" AND {}", predicate(&scope, 1, self.random)));
            }
            from = format!("{from} {}JOIN {other} ON {condition}", one_of(self.random, &["", "", "LEFT ", "RIGHT ", "FULL "]));
        }
        (from, scope)
    }

    /// ` WHERE …`, or nothing.
    fn filter(&mut self, scope: &Scope, depth: usize) -> String {
        let mut conditions = vec![];
        if self.random.random_bool(0.4) {
            conditions.push(predicate(scope, 1, self.random));
        }
        if self.random.random_bool(0.25) {
            conditions.extend(self.subquery(scope, depth));
        }
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
    }

    /// A condition on another relation, if one has a column that compares with one of these.
    fn subquery(&mut self, scope: &Scope, depth: usize) -> Option<String> {
        let (other, columns) = self.one_relation(depth.min(1));
        let pairs: Vec<(&(String, Type), &(String, Type))> =
            scope.iter().flat_map(|a| columns.iter().filter(|b| a.1.compares_with(b.1)).map(move |b| (a, b))).collect();
        if pairs.is_empty() {
            return None;
        }
        let ((a, _), (b, ty)) = one_of(self.random, &pairs);
        let inner = if self.random.random_bool(0.4) { predicate(&columns, 1, self.random) } else { "true".to_string() };
        Some(match self.random.random_range(0..6) {
            0 => format!("{a} IN (SELECT {b} FROM {other} WHERE {inner})"),
            1 => format!("{a} NOT IN (SELECT {b} FROM {other} WHERE {inner})"),
            2 => format!("EXISTS (SELECT 1 FROM {other} WHERE {a} = {b} AND {inner})"),
            3 => format!("NOT EXISTS (SELECT 1 FROM {other} WHERE {a} = {b} AND {inner})"),
            4 => format!("(SELECT count(*) FROM {other} WHERE {a} = {b} AND {inner}) > 1"),
            _ if matches!(ty, Type::Boolean | Type::Bytea) => format!("EXISTS (SELECT 1 FROM {other} WHERE {inner})"),
            _ => format!("{a} >= (SELECT min({b}) FROM {other} WHERE {inner})"),
        })
    }
}

/// Expressions as columns `c0`, `c1` and so on.
fn named(expressions: impl Iterator<Item = String>) -> String {
    expressions.enumerate().map(|(at, sql)| format!("{sql} AS c{at}")).collect::<Vec<_>>().join(", ")
}
