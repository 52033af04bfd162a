use super::*;
use crate::logical::{LogicalPlanner, Scope};
use crate::parse_query;
use crate::relation::StreamRelations;
use std::sync::Arc;
use thalweg_catalog::catalog::{CatalogChange, CatalogTransaction};
use thalweg_catalog::object::{CatalogObject, ObjectDefinition};
use thalweg_catalog::{Catalog, Column, SqlType};

fn table(id: u32, name: &str, columns: &[&str]) -> CatalogChange {
    CatalogChange::Create(Box::new(CatalogObject {
        id: ObjectId(ObjectId::FIRST_USER.0 + id),
        schema: "public".into(),
        name: name.into(),
        columns: columns.iter().map(|c| Column::new(*c, SqlType::Int8)).collect(),
        definition: ObjectDefinition::Table { primary_key: vec![], connector: None, watermark: None },
        sql: String::new(),
        depends_on: vec![],
        comment: None,
        column_comments: std::collections::BTreeMap::new(),
        created_ms: 0,
    }))
}

/// `output <- object.column kind` for each edge.
fn edges(sql: &str) -> Vec<String> {
    let changes = vec![table(0, "t", &["a", "b", "c"]), table(1, "u", &["x", "y"])];
    let catalog = Catalog::new().apply(&CatalogTransaction { version: 1, changes }).unwrap();
    let planner = LogicalPlanner::new();
    let search_path = ["public".to_string()];
    let scope = Scope { catalog: &catalog, relations: &StreamRelations, search_path: &search_path };
    let bound = planner.plan_query(&parse_query(sql).unwrap(), &scope, &[]).unwrap();
    let plan = planner.optimize_stream(&bound.plan).unwrap();
    let shown = |edge: ColumnLineage| {
        let object = Arc::clone(catalog.get(edge.object).unwrap());
        let output = plan.schema().field(edge.output).name().clone();
        format!("{output} <- {}.{} {}", object.name, object.columns[edge.column].name, edge.kind.name())
    };
    lineage_columns(&plan).unwrap().into_iter().map(shown).collect()
}

#[test]
fn a_column_as_it_is_differs_from_one_in_an_expression() {
    assert_eq!(
        edges("SELECT a AS k, b + c AS s, 1 AS one FROM t"),
        ["k <- t.a identity", "s <- t.b transform", "s <- t.c transform"]
    );
}

#[test]
fn an_aggregate_of_an_expression_is_an_aggregate() {
    assert_eq!(
        edges("SELECT a, sum(b + c) + 1 AS s FROM t GROUP BY a"),
        ["a <- t.a identity", "s <- t.b aggregate", "s <- t.c aggregate"]
    );
}

#[test]
fn a_join_has_columns_of_both_sides_and_a_semi_join_of_one() {
    assert_eq!(edges("SELECT a, y FROM t JOIN u ON t.a = u.x"), ["a <- t.a identity", "y <- u.y identity"]);
    assert_eq!(edges("SELECT a, b FROM t WHERE a IN (SELECT x FROM u)"), ["a <- t.a identity", "b <- t.b identity"]);
}

#[test]
fn a_union_has_the_columns_of_all_its_inputs() {
    assert_eq!(edges("SELECT a FROM t UNION ALL SELECT x + 1 FROM u"), ["a <- t.a identity", "a <- u.x transform"]);
}
