-- A window of the tasks of a run, with the number of all that match.
SELECT
  t."index" AS "index",
  t.task_id AS task_id,
  t.asset_key AS asset,
  t.partition_key AS partition,
  t.state AS state,
  t.attempt AS attempt,
  t.error_code AS error_code,
  t.error_message AS error_message,
  t.gate AS gate,
  (epoch_us(t.ready_at) // 1000) AS ready_ms,
  (epoch_us(t.started_at) // 1000) AS started_ms,
  (epoch_us(t.finished_at) // 1000) AS finished_ms,
  t.wall_ms AS wall_ms,
  t.rows AS rows,
  t.bytes AS bytes,
  t.worker_id AS worker_id,
  CAST(count(*) OVER () AS BIGINT) AS total
FROM orchestration.tasks AS t
WHERE t.run_id = $run
  AND ($state = '' OR t.state = $state)
  AND ($q = '' OR contains(lower(t.asset_key), lower($q)) OR contains(lower(t.partition_key), lower($q)))
ORDER BY
  CASE WHEN $first = 'errors' THEN CASE t.state WHEN 'FAILED' THEN 0 WHEN 'BLOCKED' THEN 1 WHEN 'RUNNING' THEN 2 ELSE 3 END END,
  t."index"
LIMIT $limit OFFSET $offset
