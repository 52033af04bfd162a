-- The channel of each bid as a number, by its name or from its address.
SELECT auction, bidder, price, channel,
       CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
                           WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE (regexp_match(url, '(&|^)channel_id=([^&]*)'))[2] END AS channel_id
FROM bid
WHERE regexp_like(url, '(&|^)channel_id=([^&]*)')
   OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
