-- A window of the list of assets, with the number of all that match. Over asset_lines.
-- What is sorted and counted has few columns; those of the window are fetched for its rows alone.
WITH matching AS MATERIALIZED (
  SELECT place, materialized_ms, last_rows
  FROM asset_lines
  WHERE ($namespace = '' OR namespace = $namespace)
    AND ($state = '' OR state = $state)
    AND ($q = '' OR contains(words, lower($q)))
), shown AS MATERIALIZED (
  SELECT place
  FROM matching
  ORDER BY
    CASE WHEN $sort = 'updated' THEN materialized_ms END DESC NULLS LAST,
    CASE WHEN $sort = 'rows' THEN last_rows END DESC NULLS LAST,
    place
  LIMIT $limit OFFSET $offset
)
SELECT
  l.asset, l.namespace, l.description, l.owners, l.kinds, l.state, l.materialized_ms, l.last_rows, l.last_wall_ms,
  CAST((SELECT count(*) FROM matching) AS BIGINT) AS total
FROM asset_lines AS l
WHERE l.place IN (SELECT place FROM shown)
ORDER BY
  CASE WHEN $sort = 'updated' THEN l.materialized_ms END DESC NULLS LAST,
  CASE WHEN $sort = 'rows' THEN l.last_rows END DESC NULLS LAST,
  l.place
