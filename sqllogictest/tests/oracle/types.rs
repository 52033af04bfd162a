//! Types, and a few values of each, so that rows meet.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// A type of a column or an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    SmallInt,
    Int,
    BigInt,
    Numeric,
    Double,
    Text,
    Boolean,
    Date,
    Timestamp,
    TimestampTz,
    Bytea,
}

impl Type {
    pub const ALL: [Type; 11] = [
        Type::SmallInt,
        Type::Int,
        Type::BigInt,
        Type::Numeric,
        Type::Double,
        Type::Text,
        Type::Boolean,
        Type::Date,
        Type::Timestamp,
        Type::TimestampTz,
        Type::Bytea,
    ];

    pub const INTEGERS: [Type; 3] = [Type::SmallInt, Type::Int, Type::BigInt];

    /// As a column is declared.
    pub fn sql(self) -> &'static str {
        match self {
            Type::SmallInt => "smallint",
            Type::Int => "int",
            Type::BigInt => "bigint",
            Type::Numeric => "numeric(12, 2)",
            Type::Double => "double precision",
            Type::Text => "text",
            Type::Boolean => "boolean",
            Type::Date => "date",
            Type::Timestamp => "timestamp",
            Type::TimestampTz => "timestamptz",
            Type::Bytea => "bytea",
        }
    }

    pub fn is_integer(self) -> bool {
        Type::INTEGERS.contains(&self)
    }

    /// Whether `=` takes one of each.
    pub fn compares_with(self, other: Type) -> bool {
        self == other || (self.is_integer() && other.is_integer())
    }

    /// A value that is not NULL.
    pub fn literal(self, random: &mut StdRng) -> String {
        let few = random.random_range(0..5);
        match self {
            Type::SmallInt => format!("{}::smallint", few - 1),
            Type::Int => (few - 1).to_string(),
            Type::BigInt => format!("{}::bigint", [-1, 0, 1, 2, 3_000_000_000_i64][few as usize]),
            Type::Numeric => format!("{}::numeric(12, 2)", ["-1.50", "0", "1.00", "2.25", "1000000.01"][few as usize]),
            // Multiples of a half, whose sums are the same in any order.
            Type::Double => format!("{}::double precision", ["-1.5", "0", "1", "2.5", "1e6"][few as usize]),
            Type::Text => format!("'{}'", ["", "a", "A", "b", "über x"][few as usize]),
            Type::Boolean => ["true", "false"][few as usize % 2].to_string(),
            Type::Date => {
                format!("DATE '{}'", ["1969-12-31", "2024-02-29", "2024-03-01", "2024-12-31", "2025-01-01"][few as usize])
            }
            Type::Timestamp => format!("TIMESTAMP '{}'", TIMES[few as usize]),
            Type::TimestampTz => format!("TIMESTAMPTZ '{}+00'", TIMES[few as usize]),
            Type::Bytea => format!("'\\x{}'::bytea", ["", "00", "01ff", "ff", "6162"][few as usize]),
        }
    }

    /// A value for a column, sometimes NULL.
    pub fn value(self, random: &mut StdRng) -> String {
        if random.random_bool(0.15) { "NULL".to_string() } else { self.literal(random) }
    }
}

const TIMES: [&str; 5] =
    ["1969-12-31 23:59:59.999999", "2024-02-29 00:00:00", "2024-02-29 12:30:00.5", "2024-03-01 00:00:00", "2025-01-01 00:00:00"];

/// One of a few.
pub fn one_of<T: Copy>(random: &mut StdRng, from: &[T]) -> T {
    *from.choose(random).expect("there is one")
}
