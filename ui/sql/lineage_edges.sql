-- Edges of lineage that touch any of some assets, with the state of both ends. Names are separated by spaces.
WITH wanted AS (
  SELECT n.asset_id AS asset_id
  FROM catalog.asset_names AS n
  WHERE list_contains(string_split($assets, ' '), n.namespace || '.' || n.name)
), edges AS (
  SELECT DISTINCT e.source AS source, e.target AS target
  FROM lineage.asset_edges AS e
  WHERE e.source IN (SELECT asset_id FROM wanted) OR e.target IN (SELECT asset_id FROM wanted)
)
SELECT
  s.namespace || '.' || s.name AS source,
  t.namespace || '.' || t.name AS target,
  CASE WHEN ss.last_outcome = 'failed' THEN 'FAILED' WHEN ss.last_materialization_at IS NULL THEN 'MISSING' ELSE 'MATERIALIZED' END AS source_state,
  CASE WHEN ts.last_outcome = 'failed' THEN 'FAILED' WHEN ts.last_materialization_at IS NULL THEN 'MISSING' ELSE 'MATERIALIZED' END AS target_state
FROM edges AS e
JOIN catalog.asset_names AS s ON s.asset_id = e.source
JOIN catalog.asset_names AS t ON t.asset_id = e.target
LEFT JOIN answers.asset_states AS ss ON ss.asset_id = e.source
LEFT JOIN answers.asset_states AS ts ON ts.asset_id = e.target
ORDER BY 1, 2
