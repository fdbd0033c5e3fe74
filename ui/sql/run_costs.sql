-- What the attempts of a run took and cost: one row for an asset, and for each currency of its prices.
SELECT
  c.asset_key AS asset,
  c.currency AS currency,
  CAST(count(DISTINCT c.task_id) AS BIGINT) AS tasks,
  CAST(count(*) AS BIGINT) AS attempts,
  CAST(count(*) FILTER (WHERE c.outcome = 'failed') AS BIGINT) AS failed,
  CAST(sum(c.cpu_ms + c.executor_cpu_ms) AS BIGINT) AS cpu_ms,
  CAST(max(c.peak_memory_kib) AS BIGINT) AS peak_memory_kib,
  CAST(sum(c.bytes_read) AS BIGINT) AS bytes_read,
  CAST(sum(c.bytes_written) AS BIGINT) AS bytes_written,
  CAST(sum(c.total_cost) AS BIGINT) AS cost_nanos
FROM execution.task_costs AS c
WHERE c.run_id = $run
GROUP BY c.asset_key, c.currency
ORDER BY cost_nanos DESC, cpu_ms DESC, c.asset_key, c.currency
