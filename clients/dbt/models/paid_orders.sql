{{ config(materialized='view') }}
select id, region_id, amount, at from {{ source('shop', 'dbt_orders') }} where paid
