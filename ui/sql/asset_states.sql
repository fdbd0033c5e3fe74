-- How many assets are in each state. Over asset_lines.
SELECT state, CAST(count(*) AS BIGINT) AS assets FROM asset_lines GROUP BY state ORDER BY state
