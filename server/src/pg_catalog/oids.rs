//! OIDs: each thing that `pg_catalog` names has one that lasts. Objects have their catalog id; what belongs to an object has
//! that id in a range of its own; what has only a name has a hash of it.

use thalweg_catalog::ObjectId;

/// The one database.
pub const DATABASE: u32 = 5;
/// The schema `pg_catalog`.
pub const PG_CATALOG: u32 = 11;
/// The schema `public`.
pub const PUBLIC: u32 = 2200;
/// The access method of kept relations, `heap`.
pub const HEAP: u32 = 2;
/// The access method of keys, `btree`.
pub const BTREE: u32 = 403;
/// The collation `default`.
pub const DEFAULT_COLLATION: u32 = 100;
/// The relation `pg_class`.
pub const PG_CLASS: u32 = 1259;
/// The relation `pg_type`.
pub const PG_TYPE: u32 = 1247;
/// The relation `pg_constraint`.
pub const PG_CONSTRAINT: u32 = 2606;
/// The relation `pg_rewrite`.
pub const PG_REWRITE: u32 = 2618;
/// The relation `pg_proc`.
pub const PG_PROC: u32 = 1255;

/// Ranges above all object ids; none reaches the sign bit, so that every OID is a positive `integer` too.
const FUNCTIONS: u32 = 0x2000_0000;
const SCHEMAS: u32 = 0x3000_0000;
const ROW_TYPES: u32 = 0x4000_0000;
const ROW_ARRAYS: u32 = 0x4800_0000;
const INDEXES: u32 = 0x5000_0000;
const CONSTRAINTS: u32 = 0x5800_0000;
const RULES: u32 = 0x6000_0000;
const DEFAULTS: u32 = 0x6800_0000;
const RANGE: u32 = 0x0800_0000;

fn in_range(range: u32, value: u32) -> u32 {
    range + value % RANGE
}

/// FNV-1a: the same in every build.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The OID of a schema.
pub fn schema(name: &str) -> u32 {
    match name {
        "pg_catalog" => PG_CATALOG,
        "public" => PUBLIC,
        "pg_toast" => 99,
        "information_schema" => 13_212,
        "thalweg" => 13_213,
        "thalweg_state" => 13_214,
        other => in_range(SCHEMAS, hash(other)),
    }
}

/// The OID of the function of this name.
pub fn function(name: &str) -> u32 {
    in_range(FUNCTIONS, hash(name))
}

/// The OID of the row type of a relation.
pub fn row_type(relation: u32) -> u32 {
    in_range(ROW_TYPES, relation)
}

/// The OID of the type of arrays of a relation's rows.
pub fn row_array(relation: u32) -> u32 {
    in_range(ROW_ARRAYS, relation)
}

/// The OID of the index over an object's key.
pub fn index(id: ObjectId) -> u32 {
    in_range(INDEXES, id.0)
}

/// The OID of an object's primary key constraint.
pub fn constraint(id: ObjectId) -> u32 {
    in_range(CONSTRAINTS, id.0)
}

/// The OID of the rule that makes a relation a view.
pub fn rule(id: ObjectId) -> u32 {
    in_range(RULES, id.0)
}

/// The OID of a column's default.
pub fn default(id: ObjectId, column: usize) -> u32 {
    in_range(DEFAULTS, id.0.wrapping_mul(1_600).wrapping_add(column as u32))
}
