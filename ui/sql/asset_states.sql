-- How many assets are in each state.
SELECT
  CASE
    WHEN NOT d.active THEN 'REMOVED'
    WHEN held.outputs > 0 THEN 'QUARANTINED'
    WHEN s.last_outcome = 'failed' THEN 'FAILED'
    WHEN stale.series > 0 THEN 'STALE'
    WHEN s.last_check_passed = false THEN 'WARNED'
    WHEN s.last_materialization_at IS NULL THEN 'MISSING'
    ELSE 'MATERIALIZED'
  END AS state,
  CAST(count(*) AS BIGINT) AS assets
FROM search.documents AS d
LEFT JOIN answers.asset_states AS s ON s.asset_id = d.asset_id
LEFT JOIN (SELECT asset_id, count(*) AS outputs FROM execution.quarantine WHERE decided_at IS NULL GROUP BY asset_id) AS held ON held.asset_id = d.asset_id
LEFT JOIN (SELECT asset_id, count(*) AS series FROM automation.freshness WHERE status = 'STALE' GROUP BY asset_id) AS stale ON stale.asset_id = d.asset_id
GROUP BY 1
ORDER BY 1
