//! Enum types: `pg_enum`, and their rows in `pg_type`.

use super::security::acl_cell;
use super::types::array_functions;
use crate::pg_catalog::oids;
use crate::pg_catalog::relation::{Relation, Row};
use crate::pg_catalog::snapshot::SystemSnapshot;
use thalweg_catalog::object::EnumLabel;
use thalweg_catalog::{ObjectDefinition, Subject};

pub(super) static RELATIONS: &[Relation] = &[Relation {
    name: "pg_enum",
    oid: 3501,
    columns: "oid oid, enumtypid oid, enumsortorder float4, enumlabel name",
    rows: Some(pg_enum),
    is_view: false,
}];

fn pg_enum(snapshot: &SystemSnapshot) -> Vec<Row> {
    let row = |id: u32, label: &EnumLabel| -> Row {
        vec![
            ("oid", label.id.0.into()),
            ("enumtypid", id.into()),
            ("enumsortorder", label.sort_order.into()),
            ("enumlabel", label.label.as_str().into()),
        ]
    };
    let mut rows = vec![];
    for object in snapshot.catalog.types() {
        if let ObjectDefinition::Enum { labels, .. } = &object.definition {
            rows.extend(labels.iter().map(|label| row(object.id.0, label)));
        }
    }
    rows
}

/// The rows of `pg_type`: for each enum type its own, and that of its arrays.
pub(super) fn type_rows(snapshot: &SystemSnapshot) -> Vec<Row> {
    let mut rows = vec![];
    for of in snapshot.catalog.types().filter_map(|object| object.enum_type()) {
        let subject = Subject::Type(of.id);
        let owner = snapshot.security().owner(&subject).0;
        let placed = |name: String| -> Row {
            vec![
                ("typname", name.into()),
                ("typnamespace", oids::schema(&of.schema).into()),
                ("typowner", owner.into()),
                ("typalign", 'i'.into()),
            ]
        };
        let mut row = placed(of.name.clone());
        row.extend([
            ("oid", of.id.0.into()),
            ("typlen", 4i64.into()),
            ("typbyval", true.into()),
            ("typtype", 'e'.into()),
            ("typcategory", 'E'.into()),
            ("typdelim", ','.into()),
            ("typarray", of.array.0.into()),
            ("typinput", "enum_in".into()),
            ("typoutput", "enum_out".into()),
            ("typreceive", "enum_recv".into()),
            ("typsend", "enum_send".into()),
            ("typacl", acl_cell(snapshot, &subject)),
        ]);
        rows.push(row);
        let mut row = placed(format!("_{}", of.name));
        row.extend(array_functions());
        row.extend([("oid", of.array.0.into()), ("typelem", of.id.0.into())]);
        rows.push(row);
    }
    rows
}
