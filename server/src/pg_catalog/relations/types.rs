//! Types and functions: `pg_type`, `pg_proc`, and the small relations around them.

use super::{classes, enums};
use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Relation, Row};
use crate::pg_catalog::snapshot::SystemSnapshot;
use crate::pg_catalog::types::{BASE_TYPES, BaseType, RESERVED};
use thalweg_catalog::CarriedType;

pub(super) static RELATIONS: &[Relation] = &[
    Relation {
        name: "pg_type",
        oid: 1247,
        columns: "oid oid, typname name, typnamespace oid=11, typowner oid=10, typlen int2=-1, typbyval bool=f, typtype char=b, \
                  typcategory char, typispreferred bool=f, typisdefined bool=t, typdelim char, typrelid oid=0, \
                  typsubscript regproc=-, typelem oid=0, typarray oid=0, typinput regproc, typoutput regproc, \
                  typreceive regproc, typsend regproc, typmodin regproc=-, typmodout regproc=-, typanalyze regproc=-, \
                  typalign char=i, typstorage char=p, typnotnull bool=f, typbasetype oid=0, typtypmod int4=-1, \
                  typndims int4=0, typcollation oid=0, typdefaultbin pg_node_tree, typdefault text, typacl aclitem[]",
        rows: Some(pg_type),
        is_view: false,
    },
    Relation {
        name: "pg_range",
        oid: 3541,
        columns: "rngtypid oid, rngsubtype oid, rngmultitypid oid, rngcollation oid=0, rngsubopc oid, rngcanonical regproc=-, \
                  rngsubdiff regproc",
        rows: Some(pg_range),
        is_view: false,
    },
    Relation {
        name: "pg_proc",
        oid: oids::PG_PROC,
        columns: "oid oid, proname name, pronamespace oid=11, proowner oid=10, prolang oid=12, procost float4=1, \
                  prorows float4=0, provariadic oid=0, prosupport regproc=-, prokind char, prosecdef bool=f, \
                  proleakproof bool=f, proisstrict bool=f, proretset bool=f, provolatile char=i, proparallel char=s, \
                  pronargs int2=0, pronargdefaults int2=0, prorettype oid=2276, proargtypes oidvector, proallargtypes oid[], \
                  proargmodes char[], proargnames text[], proargdefaults pg_node_tree, protrftypes oid[], prosrc text, \
                  probin text, prosqlbody pg_node_tree, proconfig text[], proacl aclitem[]",
        rows: Some(pg_proc),
        is_view: false,
    },
    Relation {
        name: "pg_aggregate",
        oid: 2600,
        columns: "aggfnoid regproc, aggkind char=n, aggnumdirectargs int2=0, aggtranstype oid=2276",
        rows: Some(pg_aggregate),
        is_view: false,
    },
    Relation {
        name: "pg_language",
        oid: 2612,
        columns: "oid oid, lanname name, lanowner oid=10, lanispl bool=f, lanpltrusted bool=f, lanplcallfoid oid=0, \
                  laninline oid=0, lanvalidator oid=0, lanacl aclitem[]",
        rows: Some(|_| vec![vec![("oid", 12u32.into()), ("lanname", "internal".into())]]),
        is_view: false,
    },
    // A function in Postgres: calls of it are rewritten to reads of this.
    Relation {
        name: "pg_get_keywords",
        oid: 12_020,
        columns: "word text, catcode char=R, barelabel bool=f, catdesc text=reserved, baredesc text=requires AS",
        rows: Some(|_| RESERVED.iter().map(|word| vec![("word", (*word).into())]).collect()),
        is_view: true,
    },
    Relation {
        name: "pg_collation",
        oid: 3456,
        columns: "oid oid, collname name, collnamespace oid=11, collowner oid=10, collprovider char=c, \
                  collisdeterministic bool=t, collencoding int4=-1, collcollate text=C, collctype text=C, colliculocale text, \
                  collversion text",
        rows: Some(|_| {
            let names = [(100u32, "default"), (950, "C"), (951, "POSIX")];
            names.iter().map(|(oid, name)| vec![("oid", (*oid).into()), ("collname", (*name).into())]).collect()
        }),
        is_view: false,
    },
];

fn functions_of(base: &BaseType) -> Row {
    let name = |suffix: &str| format!("{}{suffix}", base.functions);
    vec![
        ("typinput", name("in").into()),
        ("typoutput", name("out").into()),
        ("typreceive", name("recv").into()),
        ("typsend", name("send").into()),
    ]
}

pub(super) fn array_functions() -> Row {
    vec![
        ("typinput", "array_in".into()),
        ("typoutput", "array_out".into()),
        ("typreceive", "array_recv".into()),
        ("typsend", "array_send".into()),
        ("typcategory", 'A'.into()),
        ("typstorage", 'x'.into()),
        ("typsubscript", "array_subscript_handler".into()),
        ("typdelim", ','.into()),
    ]
}

fn pg_type(snapshot: &SystemSnapshot) -> Vec<Row> {
    let mut rows = vec![];
    for base in &BASE_TYPES {
        let collation = if base.is_collatable() { oids::DEFAULT_COLLATION } else { 0 };
        let mut row = functions_of(base);
        row.extend([
            ("oid", base.oid.into()),
            ("typname", base.name.into()),
            ("typlen", base.length.into()),
            ("typbyval", (1..=8).contains(&base.length).into()),
            ("typtype", base.kind().into()),
            ("typcategory", base.category.into()),
            ("typispreferred", matches!(base.oid, 16 | 25 | 26 | 701 | 1184 | 1186 | 1562 | 869).into()),
            ("typdelim", if base.name == "box" { ';' } else { ',' }.into()),
            ("typelem", base.element.into()),
            ("typarray", base.array.into()),
            ("typalign", base.align.into()),
            ("typstorage", base.storage().into()),
            ("typcollation", collation.into()),
        ]);
        rows.push(row);
        if base.array != 0 {
            let mut row = array_functions();
            row.extend([
                ("oid", base.array.into()),
                ("typname", format!("_{}", base.name).into()),
                ("typelem", base.oid.into()),
                ("typalign", if base.align == 'd' { 'd' } else { 'i' }.into()),
                ("typcollation", collation.into()),
            ]);
            rows.push(row);
        }
    }
    rows.extend(enums::type_rows(snapshot));
    for class in classes(snapshot) {
        let namespace = oids::schema(class.schema);
        let (row_type, array) = (oids::row_type(class.oid), oids::row_array(class.oid));
        rows.push(vec![
            ("oid", row_type.into()),
            ("typname", class.name.as_str().into()),
            ("typnamespace", namespace.into()),
            ("typtype", 'c'.into()),
            ("typcategory", 'C'.into()),
            ("typdelim", ','.into()),
            ("typrelid", class.oid.into()),
            ("typarray", array.into()),
            ("typinput", "record_in".into()),
            ("typoutput", "record_out".into()),
            ("typreceive", "record_recv".into()),
            ("typsend", "record_send".into()),
            ("typalign", 'd'.into()),
            ("typstorage", 'x'.into()),
        ]);
        let mut row = array_functions();
        row.extend([
            ("oid", array.into()),
            ("typname", format!("_{}", class.name).into()),
            ("typnamespace", namespace.into()),
            ("typelem", row_type.into()),
            ("typalign", 'd'.into()),
        ]);
        rows.push(row);
    }
    rows
}

/// Ranges by name, with the OID of the class of operators that puts their bounds in order.
const RANGES: [(&str, u32); 6] = [("int4", 1978), ("num", 3125), ("ts", 3128), ("tstz", 3127), ("date", 3122), ("int8", 3124)];

fn pg_range(_snapshot: &SystemSnapshot) -> Vec<Row> {
    let oid = |name: String| BASE_TYPES.iter().find(|base| base.name == name).map_or(0, |base| base.oid);
    let row = |(name, class): &(&str, u32)| {
        let Some(CarriedType::Range(bounds)) = CarriedType::parse(&format!("{name}range"), &[]) else { return None };
        let mut row: Row = vec![
            ("rngtypid", oid(format!("{name}range")).into()),
            ("rngsubtype", bounds.sql_type().oid().into()),
            ("rngmultitypid", oid(format!("{name}multirange")).into()),
            ("rngsubopc", (*class).into()),
            ("rngsubdiff", format!("{name}range_subdiff").into()),
        ];
        if matches!(*name, "int4" | "date" | "int8") {
            row.push(("rngcanonical", format!("{name}range_canonical").into()));
        }
        Some(row)
    };
    RANGES.iter().filter_map(row).collect()
}

fn pg_proc(snapshot: &SystemSnapshot) -> Vec<Row> {
    let functions = snapshot.functions.iter();
    functions
        .map(|function| {
            vec![
                ("oid", oids::function(&function.name).into()),
                ("proname", function.name.as_str().into()),
                ("prokind", function.kind.into()),
                ("proargtypes", Vec::<i64>::new().into()),
                ("prosrc", function.name.as_str().into()),
            ]
        })
        .collect()
}

fn pg_aggregate(snapshot: &SystemSnapshot) -> Vec<Row> {
    let aggregates = snapshot.functions.iter().filter(|function| function.kind == 'a');
    aggregates.map(|function| vec![("aggfnoid", function.name.as_str().into())]).collect()
}
