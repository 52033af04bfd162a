use crate::testing::{Harness, columns, spec};

#[test]
fn reading_again_from_any_position_gives_the_same_rows() {
    let declared = columns(&[("id", "bigint"), ("v", "text"), ("f", "double precision"), ("b", "boolean")]);
    let options = [("rows", "20000"), ("splits", "2"), ("fields.id.kind", "sequence")];
    let harness = Harness::new(&spec("datagen", &options, None), &declared);
    let mut ids: Vec<i64> = vec![];
    for split in harness.splits() {
        let whole = harness.check_resume(&split);
        assert_eq!(whole.rows.len(), 10_000);
        ids.extend(whole.rows.iter().map(|row| row.split('|').next().unwrap().parse::<i64>().unwrap()));
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..20_000).collect::<Vec<_>>());
}
