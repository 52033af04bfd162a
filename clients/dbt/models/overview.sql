select total from {{ ref('summed') }}
