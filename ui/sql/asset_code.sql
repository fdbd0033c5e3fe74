-- The code of an asset, as it was deployed last.
SELECT c.kind AS kind, c.code AS code
FROM catalog.asset_names AS n
JOIN catalog.asset_code AS c ON c.asset_id = n.asset_id
WHERE n.namespace = $namespace AND n.name = $name
