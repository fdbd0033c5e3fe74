-- When the tasks of each asset of a run ran: one row for an asset, however many tasks it has.
SELECT
  t.asset_key AS asset,
  CAST(count(*) AS BIGINT) AS tasks,
  CAST(count(*) FILTER (WHERE t.state IN ('SUCCEEDED')) AS BIGINT) AS succeeded,
  CAST(count(*) FILTER (WHERE t.state = 'REUSED') AS BIGINT) AS reused,
  CAST(count(*) FILTER (WHERE t.state = 'FAILED') AS BIGINT) AS failed,
  CAST(count(*) FILTER (WHERE t.state IN ('SKIPPED', 'BLOCKED', 'CANCELLED')) AS BIGINT) AS skipped,
  CAST(count(*) FILTER (WHERE t.state IN ('RUNNING', 'DISPATCHED')) AS BIGINT) AS running,
  min((epoch_us(t.ready_at) // 1000)) AS ready_ms,
  min((epoch_us(t.started_at) // 1000)) AS started_ms,
  max((epoch_us(coalesce(t.finished_at, t.started_at)) // 1000)) AS finished_ms,
  min(t."index") AS first_index
FROM orchestration.tasks AS t
WHERE t.run_id = $run
GROUP BY t.asset_key
ORDER BY first_index
