-- One line for each asset, for the questions `assets`, `asset_states` and `lineage_overview`.
-- The browser keeps it as a table.
SELECT
  d.asset_id AS asset_id,
  row_number() OVER (ORDER BY d.namespace || '.' || d.name) AS place,
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
  list_last(s.recent_wall_ms) AS last_wall_ms,
  lower(d.namespace || '.' || d.name || chr(10) || d.owners || chr(10) || d.description) AS words
FROM search.documents AS d
LEFT JOIN answers.asset_states AS s ON s.asset_id = d.asset_id
LEFT JOIN (SELECT asset_id, count(*) AS outputs FROM execution.quarantine WHERE decided_at IS NULL GROUP BY asset_id) AS held ON held.asset_id = d.asset_id
LEFT JOIN (SELECT asset_id, count(*) AS series FROM automation.freshness WHERE status = 'STALE' GROUP BY asset_id) AS stale ON stale.asset_id = d.asset_id
ORDER BY place
