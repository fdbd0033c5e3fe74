-- The graph of all assets, or of a namespace, in one row of lists: assets with edges come first, and edges are
-- pairs of places in the list of assets. Counts of inputs and users are of all assets. Over asset_lines.
WITH edges AS (
  SELECT DISTINCT source, target FROM lineage.asset_edges WHERE source <> target
), ends AS (
  SELECT s.asset_id AS source, t.asset_id AS target
  FROM edges AS e
  JOIN asset_lines AS s ON s.asset_id = e.source
  JOIN asset_lines AS t ON t.asset_id = e.target
), degrees AS (
  SELECT asset_id, sum(up) AS ups, sum(down) AS downs
  FROM (
    SELECT target AS asset_id, 1 AS up, 0 AS down FROM ends
    UNION ALL
    SELECT source AS asset_id, 0 AS up, 1 AS down FROM ends
  )
  GROUP BY asset_id
), nodes AS (
  SELECT
    a.asset_id AS asset_id,
    a.asset AS asset,
    a.state AS state,
    CAST(coalesce(d.ups, 0) AS INTEGER) AS ups,
    CAST(coalesce(d.downs, 0) AS INTEGER) AS downs,
    CAST(row_number() OVER (ORDER BY d.asset_id IS NULL, a.asset) - 1 AS INTEGER) AS place
  FROM asset_lines AS a
  LEFT JOIN degrees AS d ON d.asset_id = a.asset_id
  WHERE a.state <> 'REMOVED' AND ($namespace = '' OR a.namespace = $namespace)
), chosen AS (
  SELECT * FROM nodes WHERE place < $limit
), arrows AS (
  SELECT s.place AS source, t.place AS target
  FROM ends AS e
  JOIN chosen AS s ON s.asset_id = e.source
  JOIN chosen AS t ON t.asset_id = e.target
), node_lists AS (
  SELECT
    list(asset ORDER BY place) AS assets,
    list(state ORDER BY place) AS states,
    list(ups ORDER BY place) AS ups,
    list(downs ORDER BY place) AS downs
  FROM chosen
), arrow_lists AS (
  SELECT
    list(source ORDER BY source, target) AS sources,
    list(target ORDER BY source, target) AS targets
  FROM arrows
)
SELECT
  (SELECT CAST(count(*) AS INTEGER) FROM nodes) AS total,
  n.assets AS assets, n.states AS states, n.ups AS ups, n.downs AS downs,
  a.sources AS sources, a.targets AS targets
FROM node_lists AS n, arrow_lists AS a
