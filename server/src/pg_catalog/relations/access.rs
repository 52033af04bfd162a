//! Access methods and the operators around keys.

use crate::pg_catalog::oids;
use crate::pg_catalog::relation::Relation;

pub(super) static RELATIONS: &[Relation] = &[
    Relation {
        name: "pg_am",
        oid: 2601,
        columns: "oid oid, amname name, amhandler regproc, amtype char",
        rows: Some(|_| {
            let methods = [(oids::HEAP, "heap", 't'), (oids::BTREE, "btree", 'i')];
            let row = |(oid, name, kind): &(u32, &str, char)| {
                vec![
                    ("oid", (*oid).into()),
                    ("amname", (*name).into()),
                    ("amhandler", format!("{name}handler").into()),
                    ("amtype", (*kind).into()),
                ]
            };
            methods.iter().map(row).collect()
        }),
        is_view: false,
    },
    Relation {
        name: "pg_opclass",
        oid: 2616,
        columns: "oid oid, opcmethod oid=403, opcname name, opcnamespace oid=11, opcowner oid=10, opcfamily oid=0, \
                  opcintype oid, opcdefault bool=t, opckeytype oid=0",
        rows: Some(|_| {
            let classes = [
                (424u32, "bool_ops", 16u32),
                (428, "bytea_ops", 17),
                (3124, "int8_ops", 20),
                (1979, "int2_ops", 21),
                (1978, "int4_ops", 23),
                (3126, "text_ops", 25),
                (1970, "float4_ops", 700),
                (3123, "float8_ops", 701),
                (426, "bpchar_ops", 1042),
                (3122, "date_ops", 1082),
                (1996, "time_ops", 1083),
                (3128, "timestamp_ops", 1114),
                (3127, "timestamptz_ops", 1184),
                (2745, "interval_ops", 1186),
                (3125, "numeric_ops", 1700),
                (2969, "uuid_ops", 2950),
                (4033, "jsonb_ops", 3802),
            ];
            let row = |(oid, name, input): &(u32, &str, u32)| {
                vec![("oid", (*oid).into()), ("opcname", (*name).into()), ("opcintype", (*input).into())]
            };
            classes.iter().map(row).collect()
        }),
        is_view: false,
    },
];
