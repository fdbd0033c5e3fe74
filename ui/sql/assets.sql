-- A window of the list of assets, with the number of all that match.
WITH held AS (
  SELECT asset_id, count(*) AS outputs FROM execution.quarantine WHERE decided_at IS NULL GROUP BY asset_id
), stale AS (
  SELECT asset_id, count(*) AS series FROM automation.freshness WHERE status = 'STALE' GROUP BY asset_id
), listed AS (
  SELECT
    d.namespace || '.' || d.name AS asset,
    d.namespace AS namespace,
    d.description AS description,
    d.owners AS owners,
    d.kinds AS kinds,
    CASE
      WHEN NOT d.active THEN 'REMOVED'
      WHEN held.outputs > 0 THEN 'QUARANTINED'
      WHEN s.last_outcome = 'failed' THEN 'FAILED'
      WHEN stale.series > 0 THEN 'STALE'
      WHEN s.last_check_passed = false THEN 'WARNED'
      WHEN s.last_materialization_at IS NULL THEN 'MISSING'
      ELSE 'MATERIALIZED'
    END AS state,
    (epoch_us(s.last_materialization_at) // 1000) AS materialized_ms,
    list_last(s.recent_rows) AS last_rows,
    list_last(s.recent_wall_ms) AS last_wall_ms
  FROM search.documents AS d
  LEFT JOIN answers.asset_states AS s ON s.asset_id = d.asset_id
  LEFT JOIN held ON held.asset_id = d.asset_id
  LEFT JOIN stale ON stale.asset_id = d.asset_id
), matching AS (
  SELECT * FROM listed
  WHERE ($namespace = '' OR namespace = $namespace)
    AND ($state = '' OR state = $state)
    AND ($q = '' OR contains(asset, lower($q)) OR contains(lower(owners), lower($q)) OR contains(lower(description), lower($q)))
)
SELECT *, CAST(count(*) OVER () AS BIGINT) AS total
FROM matching
ORDER BY
  CASE WHEN $sort = 'updated' THEN materialized_ms END DESC NULLS LAST,
  CASE WHEN $sort = 'rows' THEN last_rows END DESC NULLS LAST,
  asset
LIMIT $limit OFFSET $offset
