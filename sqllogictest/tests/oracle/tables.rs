//! Random tables, and random changes to them.

use crate::expressions::{Scope, predicate, scalar};
use crate::types::{Type, one_of};
use rand::Rng;
use rand::rngs::StdRng;

/// What a query reads from: a table or a view, with its columns.
#[derive(Clone, Debug)]
pub struct Relation {
    pub name: String,
    pub columns: Vec<(String, Type)>,
}

impl Relation {
    /// Its columns as they are named where it is called `alias`.
    pub fn scope(&self, alias: &str) -> Scope {
        self.columns.iter().map(|(name, ty)| (format!("{alias}.{name}"), *ty)).collect()
    }
}

/// A table, and the statement that creates it.
#[derive(Clone, Debug)]
pub struct Table {
    pub relation: Relation,
    pub create: String,
    has_key: bool,
    next_id: i64,
}

impl Table {
    /// A table of three to six columns; the first is an integer, and the key if there is one.
    pub fn random(name: &str, random: &mut StdRng) -> Table {
        let mut types = vec![one_of(random, &Type::INTEGERS)];
        for _ in 0..random.random_range(2..6) {
            types.push(one_of(random, &Type::ALL));
        }
        let columns: Vec<(String, Type)> = types.iter().enumerate().map(|(at, ty)| (format!("c{at}"), *ty)).collect();
        let has_key = random.random_bool(0.6);
        let declared: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, (column, ty))| format!("{column} {}{}", ty.sql(), if has_key && at == 0 { " PRIMARY KEY" } else { "" }))
            .collect();
        let create = format!("CREATE TABLE {name} ({})", declared.join(", "));
        Table { relation: Relation { name: name.to_string(), columns }, create, has_key, next_id: 0 }
    }

    /// An `INSERT` of some rows.
    pub fn insert(&mut self, random: &mut StdRng) -> String {
        let mut lines = vec![];
        for _ in 0..random.random_range(1..8) {
            let mut values: Vec<String> = self.relation.columns.iter().map(|(_, ty)| ty.value(random)).collect();
            if self.has_key {
                values[0] = self.next_id.to_string();
                self.next_id += 1;
            }
            lines.push(format!("({})", values.join(", ")));
        }
        format!("INSERT INTO {} VALUES {}", self.relation.name, lines.join(", "))
    }

    /// An `INSERT`, `UPDATE` or `DELETE`.
    pub fn change(&mut self, random: &mut StdRng) -> String {
        let name = &self.relation.name;
        let scope = self.relation.scope(name);
        match random.random_range(0..10) {
            0..5 => self.insert(random),
            5..8 => {
                let first = usize::from(self.has_key);
                let (column, ty) = &self.relation.columns[random.random_range(first..self.relation.columns.len())];
                let value = if random.random_bool(0.7) { ty.value(random) } else { scalar(*ty, &scope, 1, random) };
                format!("UPDATE {name} SET {column} = {value} WHERE {}", predicate(&scope, 1, random))
            }
            _ => format!("DELETE FROM {name} WHERE {}", predicate(&scope, 1, random)),
        }
    }
}

/// One statement, or several in a transaction that is sometimes taken back.
pub fn changes(tables: &mut [Table], random: &mut StdRng) -> Vec<String> {
    let mut some = |random: &mut StdRng| {
        let at = random.random_range(0..tables.len());
        tables[at].change(random)
    };
    if random.random_bool(0.75) {
        return vec![some(random)];
    }
    let mut statements = vec!["BEGIN".to_string()];
    for _ in 0..random.random_range(1..5) {
        statements.push(some(random));
    }
    statements.push(one_of(random, &["COMMIT", "COMMIT", "ROLLBACK"]).to_string());
    statements
}
