{{ config(materialized='ephemeral') }}
select sum(total) as total from {{ ref('totals') }}
