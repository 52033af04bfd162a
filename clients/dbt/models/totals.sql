{{ config(materialized='materialized_view') }}
select r.region, count(*) as orders, sum(o.amount) as total
from {{ ref('paid_orders') }} as o join {{ ref('regions') }} as r on r.id = o.region_id
group by r.region
