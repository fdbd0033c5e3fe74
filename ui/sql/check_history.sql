-- Results of an asset's checks by day, for a strip of each check.
SELECT
  r.check_name AS check_name,
  strftime(r.evaluated_at, '%Y-%m-%d') AS day,
  CAST(count(*) FILTER (WHERE r.status = 'passed') AS BIGINT) AS passed,
  CAST(count(*) FILTER (WHERE r.status <> 'passed') AS BIGINT) AS failed
FROM catalog.asset_names AS n
JOIN quality.check_results AS r ON r.asset_id = n.asset_id
WHERE n.namespace = $namespace AND n.name = $name
GROUP BY 1, 2
ORDER BY 1, 2
