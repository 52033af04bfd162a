//! Relations about what there is none of here: clients read them all the same, and find no rows.

use crate::pg_catalog::relation::Relation;

const fn empty(name: &'static str, oid: u32, columns: &'static str) -> Relation {
    Relation { name, oid, columns, rows: None, is_view: false }
}

const fn empty_view(name: &'static str, oid: u32, columns: &'static str) -> Relation {
    Relation { name, oid, columns, rows: None, is_view: true }
}

pub(super) static RELATIONS: &[Relation] = &[
    empty("pg_cast", 2605, "oid oid, castsource oid, casttarget oid, castfunc oid, castcontext char, castmethod char"),
    empty("pg_inherits", 2611, "inhrelid oid, inhparent oid, inhseqno int4, inhdetachpending bool"),
    empty(
        "pg_trigger",
        2620,
        "oid oid, tgrelid oid, tgparentid oid, tgname name, tgfoid oid, tgtype int2, tgenabled char, tgisinternal bool, \
         tgconstrrelid oid, tgconstrindid oid, tgconstraint oid, tgdeferrable bool, tginitdeferred bool, tgnargs int2, \
         tgattr int2vector, tgargs text, tgqual pg_node_tree, tgoldtable name, tgnewtable name",
    ),
    empty(
        "pg_statistic_ext",
        3381,
        "oid oid, stxrelid oid, stxname name, stxnamespace oid, stxowner oid, stxstattarget int4, stxkeys int2vector, \
         stxkind char[], stxexprs pg_node_tree",
    ),
    empty(
        "pg_publication",
        6104,
        "oid oid, pubname name, pubowner oid, puballtables bool, pubinsert bool, pubupdate bool, pubdelete bool, \
         pubtruncate bool, pubviaroot bool",
    ),
    empty("pg_publication_rel", 6106, "oid oid, prpubid oid, prrelid oid, prqual pg_node_tree, prattrs int2vector"),
    empty("pg_publication_namespace", 6237, "oid oid, pnpubid oid, pnnspid oid"),
    empty(
        "pg_subscription",
        6100,
        "oid oid, subdbid oid, subname name, subowner oid, subenabled bool, subbinary bool, substream bool, \
         subconninfo text, subslotname name, subsynccommit text, subpublications text[]",
    ),
    empty(
        "pg_sequence",
        2224,
        "seqrelid oid, seqtypid oid, seqstart int8, seqincrement int8, seqmax int8, seqmin int8, seqcache int8, seqcycle bool",
    ),
    empty(
        "pg_extension",
        3079,
        "oid oid, extname name, extowner oid, extnamespace oid, extrelocatable bool, extversion text, extconfig oid[], \
         extcondition text[]",
    ),
    empty("pg_shdescription", 2396, "objoid oid, classoid oid, description text"),
    empty("pg_seclabel", 3596, "objoid oid, classoid oid, objsubid int4, provider text, label text"),
    empty(
        "pg_operator",
        2617,
        "oid oid, oprname name, oprnamespace oid, oprowner oid, oprkind char, oprcanmerge bool, oprcanhash bool, \
         oprleft oid, oprright oid, oprresult oid, oprcom oid, oprnegate oid, oprcode regproc, oprrest regproc, \
         oprjoin regproc",
    ),
    empty("pg_opfamily", 2753, "oid oid, opfmethod oid, opfname name, opfnamespace oid, opfowner oid"),
    empty("pg_amop", 2602, "oid oid, amopfamily oid, amoplefttype oid, amoprighttype oid, amopstrategy int2, amopopr oid"),
    empty("pg_amproc", 2603, "oid oid, amprocfamily oid, amproclefttype oid, amprocrighttype oid, amprocnum int2"),
    empty("pg_conversion", 2607, "oid oid, conname name, connamespace oid, conowner oid, condefault bool"),
    empty("pg_event_trigger", 3466, "oid oid, evtname name, evtevent name, evtowner oid, evtfoid oid, evtenabled char"),
    empty("pg_shdepend", 1214, "dbid oid, classid oid, objid oid, objsubid int4, refclassid oid, refobjid oid, deptype char"),
    empty("pg_partitioned_table", 3350, "partrelid oid, partstrat char, partnatts int2, partdefid oid, partattrs int2vector"),
    empty("pg_user_mapping", 1418, "oid oid, umuser oid, umserver oid, umoptions text[]"),
    empty("pg_ts_config", 3602, "oid oid, cfgname name, cfgnamespace oid, cfgowner oid, cfgparser oid"),
    empty("pg_ts_dict", 3600, "oid oid, dictname name, dictnamespace oid, dictowner oid, dicttemplate oid"),
    empty("pg_ts_parser", 3601, "oid oid, prsname name, prsnamespace oid"),
    empty("pg_ts_template", 3764, "oid oid, tmplname name, tmplnamespace oid"),
    empty("pg_transform", 3576, "oid oid, trftype oid, trflang oid, trffromsql regproc, trftosql regproc"),
    empty_view(
        "pg_locks",
        12_030,
        "locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text, transactionid xid, classid oid, \
         objid oid, objsubid int2, virtualtransaction text, pid int4, mode text, granted bool, fastpath bool, \
         waitstart timestamptz",
    ),
    empty_view(
        "pg_sequences",
        12_031,
        "schemaname name, sequencename name, sequenceowner name, data_type text, start_value int8, min_value int8, \
         max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8",
    ),
    empty_view("pg_rules", 12_032, "schemaname name, tablename name, rulename name, definition text"),
    empty_view("pg_publication_tables", 12_034, "pubname name, schemaname name, tablename name, attnames name[], rowfilter text"),
    empty_view("pg_group", 12_035, "groname name, grosysid oid, grolist oid[]"),
    empty_view("pg_prepared_xacts", 12_036, "transaction xid, gid text, prepared timestamptz, owner name, database name"),
    empty_view("pg_available_extensions", 12_037, "name name, default_version text, installed_version text, comment text"),
    empty_view("pg_timezone_names", 12_038, "name text, abbrev text, utc_offset text, is_dst bool"),
    empty_view(
        "pg_stat_gssapi",
        12_039,
        "pid int4, gss_authenticated bool, principal text, encrypted bool, credentials_delegated bool",
    ),
    empty_view(
        "pg_replication_slots",
        12_041,
        "slot_name name, plugin name, slot_type text, datoid oid, database name, temporary bool, active bool, \
         active_pid int4, xmin xid, catalog_xmin xid, restart_lsn text, confirmed_flush_lsn text, wal_status text",
    ),
    empty_view("pg_stat_replication", 12_042, "pid int4, usesysid oid, usename name, application_name text, state text"),
    empty_view(
        "pg_stat_database",
        12_043,
        "datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8, blks_read int8, blks_hit int8",
    ),
    empty_view(
        "pg_statio_user_tables",
        12_044,
        "relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit int8",
    ),
    empty_view(
        "pg_stat_user_indexes",
        12_045,
        "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, idx_scan int8, idx_tup_read int8, \
         idx_tup_fetch int8",
    ),
    empty_view("pg_stats", 12_048, "schemaname name, tablename name, attname name, inherited bool, null_frac float4"),
    empty_view("pg_user_mappings", 12_049, "umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions text[]"),
];

/// Whether a relation of `pg_catalog` never has rows.
pub fn is_always_empty(name: &str) -> bool {
    RELATIONS.iter().any(|relation| relation.name == name)
}
