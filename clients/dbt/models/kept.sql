{{ config(materialized='table') }}
select id, region_id, amount from {{ ref('paid_orders') }} where amount > 1
