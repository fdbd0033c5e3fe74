-- A window of the list of assets, with the number of all that match. Over asset_lines.
SELECT
  asset, namespace, description, owners, kinds, state, materialized_ms, last_rows, last_wall_ms,
  CAST(count(*) OVER () AS BIGINT) AS total
FROM asset_lines
WHERE ($namespace = '' OR namespace = $namespace)
  AND ($state = '' OR state = $state)
  AND ($q = '' OR contains(words, lower($q)))
ORDER BY
  CASE WHEN $sort = 'updated' THEN materialized_ms END DESC NULLS LAST,
  CASE WHEN $sort = 'rows' THEN last_rows END DESC NULLS LAST,
  asset
LIMIT $limit OFFSET $offset
