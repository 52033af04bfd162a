//! The base types as every Postgres has them, and names for types by OID.

use super::oids;
use std::sync::Arc;
use thalweg_catalog::{Catalog, CatalogObject, SqlType};

/// A base type: its name, OID, the OID of its array type (0: none), length, category, whether it is preferred there, what
/// its functions begin with, its alignment, storage, collation, and its name in SQL if that is another.
pub struct BaseType {
    /// `pg_type.typname`.
    pub name: &'static str,
    /// Its OID.
    pub oid: u32,
    /// The OID of its array type, 0 if it has none.
    pub array: u32,
    /// `pg_type.typlen`.
    pub length: i16,
    /// `pg_type.typcategory`.
    pub category: char,
    /// What its functions are called before `in`, `out`, `recv` and `send`.
    pub functions: &'static str,
    /// `pg_type.typalign`.
    pub align: char,
    /// Its name in SQL.
    pub sql_name: &'static str,
    /// The OID of its elements, for fixed arrays such as `name`.
    pub element: u32,
}

const fn base(
    name: &'static str,
    (oid, array): (u32, u32),
    length: i16,
    (category, align): (char, char),
    functions: &'static str,
    sql_name: &'static str,
) -> BaseType {
    BaseType { name, oid, array, length, category, functions, align, sql_name, element: 0 }
}

/// All base types.
pub const BASE_TYPES: [BaseType; 76] = [
    base("bool", (16, 1000), 1, ('B', 'c'), "bool", "boolean"),
    base("bytea", (17, 1001), -1, ('U', 'i'), "bytea", "bytea"),
    base("char", (18, 1002), 1, ('Z', 'c'), "char", "\"char\""),
    BaseType { element: 18, ..base("name", (19, 1003), 64, ('S', 'c'), "name", "name") },
    base("int8", (20, 1016), 8, ('N', 'd'), "int8", "bigint"),
    base("int2", (21, 1005), 2, ('N', 's'), "int2", "smallint"),
    BaseType { element: 21, ..base("int2vector", (22, 1006), -1, ('A', 'i'), "int2vector", "int2vector") },
    base("int4", (23, 1007), 4, ('N', 'i'), "int4", "integer"),
    base("regproc", (24, 1008), 4, ('N', 'i'), "regproc", "regproc"),
    base("text", (25, 1009), -1, ('S', 'i'), "text", "text"),
    base("oid", (26, 1028), 4, ('N', 'i'), "oid", "oid"),
    base("tid", (27, 1010), 6, ('U', 's'), "tid", "tid"),
    base("xid", (28, 1011), 4, ('U', 'i'), "xid", "xid"),
    base("cid", (29, 1012), 4, ('U', 'i'), "cid", "cid"),
    BaseType { element: 26, ..base("oidvector", (30, 1013), -1, ('A', 'i'), "oidvector", "oidvector") },
    base("json", (114, 199), -1, ('U', 'i'), "json_", "json"),
    base("xml", (142, 143), -1, ('U', 'i'), "xml_", "xml"),
    base("pg_node_tree", (194, 0), -1, ('Z', 'i'), "pg_node_tree_", "pg_node_tree"),
    base("point", (600, 1017), 16, ('G', 'd'), "point_", "point"),
    base("lseg", (601, 1018), 32, ('G', 'd'), "lseg_", "lseg"),
    base("path", (602, 1019), -1, ('G', 'd'), "path_", "path"),
    base("box", (603, 1020), 32, ('G', 'd'), "box_", "box"),
    base("polygon", (604, 1027), -1, ('G', 'd'), "poly_", "polygon"),
    base("line", (628, 629), 24, ('G', 'd'), "line_", "line"),
    base("cidr", (650, 651), -1, ('I', 'i'), "cidr_", "cidr"),
    base("float4", (700, 1021), 4, ('N', 'i'), "float4", "real"),
    base("float8", (701, 1022), 8, ('N', 'd'), "float8", "double precision"),
    base("unknown", (705, 0), -2, ('X', 'c'), "unknown", "unknown"),
    base("circle", (718, 719), 24, ('G', 'd'), "circle_", "circle"),
    base("macaddr8", (774, 775), 8, ('U', 'i'), "macaddr8_", "macaddr8"),
    base("money", (790, 791), 8, ('N', 'd'), "cash_", "money"),
    base("macaddr", (829, 1040), 6, ('U', 'i'), "macaddr_", "macaddr"),
    base("inet", (869, 1041), -1, ('I', 'i'), "inet_", "inet"),
    base("aclitem", (1033, 1034), 12, ('U', 'i'), "aclitem", "aclitem"),
    base("bpchar", (1042, 1014), -1, ('S', 'i'), "bpchar", "character"),
    base("varchar", (1043, 1015), -1, ('S', 'i'), "varchar", "character varying"),
    base("date", (1082, 1182), 4, ('D', 'i'), "date_", "date"),
    base("time", (1083, 1183), 8, ('D', 'd'), "time_", "time without time zone"),
    base("timestamp", (1114, 1115), 8, ('D', 'd'), "timestamp_", "timestamp without time zone"),
    base("timestamptz", (1184, 1185), 8, ('D', 'd'), "timestamptz_", "timestamp with time zone"),
    base("interval", (1186, 1187), 16, ('T', 'd'), "interval_", "interval"),
    base("timetz", (1266, 1270), 12, ('D', 'd'), "timetz_", "time with time zone"),
    base("bit", (1560, 1561), -1, ('V', 'i'), "bit_", "bit"),
    base("varbit", (1562, 1563), -1, ('V', 'i'), "varbit_", "bit varying"),
    base("numeric", (1700, 1231), -1, ('N', 'i'), "numeric_", "numeric"),
    base("refcursor", (1790, 2201), -1, ('U', 'i'), "text", "refcursor"),
    base("regprocedure", (2202, 2207), 4, ('N', 'i'), "regprocedure", "regprocedure"),
    base("regclass", (2205, 2210), 4, ('N', 'i'), "regclass", "regclass"),
    base("regtype", (2206, 2211), 4, ('N', 'i'), "regtype", "regtype"),
    base("record", (2249, 2287), -1, ('P', 'd'), "record_", "record"),
    base("cstring", (2275, 1263), -2, ('P', 'c'), "cstring_", "cstring"),
    base("any", (2276, 0), 4, ('P', 'i'), "any_", "\"any\""),
    base("anyarray", (2277, 0), -1, ('P', 'd'), "anyarray_", "anyarray"),
    base("void", (2278, 0), 4, ('P', 'i'), "void_", "void"),
    base("trigger", (2279, 0), 4, ('P', 'i'), "trigger_", "trigger"),
    base("internal", (2281, 0), 8, ('P', 'd'), "internal_", "internal"),
    base("anyelement", (2283, 0), 4, ('P', 'i'), "anyelement_", "anyelement"),
    base("uuid", (2950, 2951), 16, ('U', 'c'), "uuid_", "uuid"),
    base("pg_lsn", (3220, 3221), 8, ('U', 'd'), "pg_lsn_", "pg_lsn"),
    base("tsvector", (3614, 3643), -1, ('U', 'i'), "tsvector", "tsvector"),
    base("regconfig", (3734, 3735), 4, ('N', 'i'), "regconfig", "regconfig"),
    base("jsonb", (3802, 3807), -1, ('U', 'i'), "jsonb_", "jsonb"),
    base("int4range", (3904, 3905), -1, ('R', 'i'), "range_", "int4range"),
    base("numrange", (3906, 3907), -1, ('R', 'i'), "range_", "numrange"),
    base("tsrange", (3908, 3909), -1, ('R', 'd'), "range_", "tsrange"),
    base("tstzrange", (3910, 3911), -1, ('R', 'd'), "range_", "tstzrange"),
    base("daterange", (3912, 3913), -1, ('R', 'i'), "range_", "daterange"),
    base("int8range", (3926, 3927), -1, ('R', 'd'), "range_", "int8range"),
    base("regnamespace", (4089, 4090), 4, ('N', 'i'), "regnamespace", "regnamespace"),
    base("regrole", (4096, 4097), 4, ('N', 'i'), "regrole", "regrole"),
    base("int4multirange", (4451, 6150), -1, ('R', 'i'), "multirange_", "int4multirange"),
    base("nummultirange", (4532, 6151), -1, ('R', 'i'), "multirange_", "nummultirange"),
    base("tsmultirange", (4533, 6152), -1, ('R', 'd'), "multirange_", "tsmultirange"),
    base("tstzmultirange", (4534, 6153), -1, ('R', 'd'), "multirange_", "tstzmultirange"),
    base("datemultirange", (4535, 6155), -1, ('R', 'i'), "multirange_", "datemultirange"),
    base("int8multirange", (4536, 6157), -1, ('R', 'd'), "multirange_", "int8multirange"),
];

impl BaseType {
    /// Whether it holds text, which has a collation.
    pub fn is_collatable(&self) -> bool {
        matches!(self.oid, 19 | 25 | 1042 | 1043)
    }

    /// `pg_type.typtype`.
    pub fn kind(&self) -> char {
        match (self.category, self.functions) {
            ('P', _) => 'p',
            ('R', "range_") => 'r',
            ('R', _) => 'm',
            _ => 'b',
        }
    }

    /// `pg_type.typstorage`.
    pub fn storage(&self) -> char {
        match (self.length, self.oid) {
            (-1, 650 | 869 | 1700) => 'm',
            (-1, 22 | 30) => 'p',
            (-1, _) => 'x',
            _ => 'p',
        }
    }
}

/// The name that `format_type` gives to a type.
pub fn format_type(catalog: &Catalog, oid: u32, modifier: Option<i32>) -> String {
    if oid == 0 {
        return "-".to_string();
    }
    if let Some(base) = BASE_TYPES.iter().find(|base| base.oid == oid) {
        return with_modifier(base, modifier);
    }
    if let Some(base) = BASE_TYPES.iter().find(|base| base.array == oid) {
        return format!("{}[]", with_modifier(base, modifier));
    }
    for object in catalog.types() {
        match object.enum_type() {
            Some(of) if of.id.0 == oid => return shown_name(&object.schema, &object.name),
            Some(of) if of.array.0 == oid => return format!("{}[]", shown_name(&object.schema, &object.name)),
            _ => {}
        }
    }
    for object in catalog.objects() {
        if oids::row_type(object.id.0) == oid {
            return shown_name(&object.schema, &object.name);
        }
        if oids::row_array(object.id.0) == oid {
            return format!("{}[]", shown_name(&object.schema, &object.name));
        }
    }
    "???".to_string()
}

fn with_modifier(base: &BaseType, modifier: Option<i32>) -> String {
    let name = base.sql_name;
    match (base.oid, modifier.filter(|modifier| *modifier >= 0)) {
        // A character type without a length is shown by its internal name.
        (1042, None) if modifier == Some(-1) => "bpchar".to_string(),
        (1560, None) if modifier == Some(-1) => "\"bit\"".to_string(),
        (1560 | 1562, Some(modifier)) => format!("{name}({modifier})"),
        (1042 | 1043, Some(modifier)) => format!("{name}({})", modifier - 4),
        (1700, Some(modifier)) => {
            let size = modifier - 4;
            format!("{name}({},{})", size >> 16 & 0xffff, size & 0x7ff)
        }
        (1083 | 1114 | 1184 | 1266, Some(modifier)) => match name.split_once(' ') {
            Some((first, rest)) => format!("{first}({modifier}) {rest}"),
            None => name.to_string(),
        },
        _ => name.to_string(),
    }
}

/// The OID of the type of this name, in SQL or of `pg_type`.
pub fn type_named(catalog: &Catalog, name: &str) -> Option<u32> {
    let name = name.trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    if let Some(item) = name.strip_suffix("[]") {
        let item = type_named(catalog, item)?;
        if let Some(of) = catalog.entry(thalweg_catalog::ObjectId(item)).and_then(|object| object.enum_type()) {
            return Some(of.array.0);
        }
        return BASE_TYPES
            .iter()
            .find(|base| base.oid == item)
            .map(|base| base.array)
            .filter(|array| *array != 0)
            .or_else(|| catalog.objects().find(|o| oids::row_type(o.id.0) == item).map(|o| oids::row_array(o.id.0)));
    }
    let plain = name.trim_matches('"');
    if let Some(base) = BASE_TYPES.iter().find(|base| base.name == plain || base.sql_name == name) {
        return Some(base.oid);
    }
    if let Some(array) = plain.strip_prefix('_').and_then(|item| BASE_TYPES.iter().find(|base| base.name == item)) {
        return Some(array.array).filter(|array| *array != 0);
    }
    if let Some(found) = SqlType::parse(name) {
        return Some(found.oid());
    }
    let (schema, name) = split_name(name);
    let is_named = |o: &&Arc<CatalogObject>| o.name == name && o.schema == schema.as_deref().unwrap_or(&o.schema);
    let own = catalog.types().find(is_named).map(|o| o.id.0);
    own.or_else(|| catalog.objects().find(is_named).map(|o| oids::row_type(o.id.0)))
}

/// A name of one or two parts, each lowercased unless quoted. Blanks around the parts don't count.
pub fn split_name(text: &str) -> (Option<String>, String) {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in text.trim().chars() {
        let part = parts.last_mut().expect("there is a first part");
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c if !quoted && c.is_whitespace() => {}
            c if quoted => part.push(c),
            c => part.extend(c.to_lowercase()),
        }
    }
    let name = parts.pop().unwrap_or_default();
    (parts.pop(), name)
}

/// A relation's name as it has to be written: without its schema where that is `public` or `pg_catalog`.
pub fn shown_name(schema: &str, name: &str) -> String {
    if matches!(schema, "public" | "pg_catalog") { quoted(name) } else { format!("{}.{}", quoted(schema), quoted(name)) }
}

/// A name in quotes if it needs them.
pub fn quoted(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$')
        && !RESERVED.contains(&name);
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The words that can't be names without quotes.
pub const RESERVED: [&str; 77] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "column",
    "constraint",
    "create",
    "current_catalog",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "from",
    "grant",
    "group",
    "having",
    "in",
    "initially",
    "intersect",
    "into",
    "lateral",
    "leading",
    "limit",
    "localtime",
    "localtimestamp",
    "not",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "placing",
    "primary",
    "references",
    "returning",
    "select",
    "session_user",
    "some",
    "symmetric",
    "table",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "when",
    "where",
    "window",
    "with",
];
