{{ config(materialized='incremental', unique_key='id', incremental_strategy='delete+insert') }}
select id, amount from {{ ref('paid_orders') }}
{% if is_incremental() %} where id > (select max(id) from {{ this }}) {% endif %}
