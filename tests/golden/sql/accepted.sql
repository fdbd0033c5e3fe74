SELECT timestampdiff(MONTH, a, b), datediff(MONTH, a, b), date_diff(day, a, b), dateadd(HOUR, 1, a), date_add(WEEK, 1, a), timestampadd(SECOND, 1, a) FROM {t}

SELECT extract(DOW FROM d), date_part('year', d), trunc(d, 'MM'), date_trunc('month', d), OVERLAY(a PLACING b FROM 1), SUBSTRING(a FROM 1 FOR 2), POSITION('x' IN a), TRIM(LEADING 'x' FROM a), TRIM(BOTH FROM a) FROM {t}

SELECT INTERVAL 1 DAY, X'1F', a::int FROM {t}

SELECT aggregate(xs, 0, (acc, x) -> acc + x, acc -> acc), filter(xs, x -> x > a), zip_with(xs, xs, (x, y) -> x + y), map_filter(m, (k, v) -> k > v), exists(xs, x -> x > 1), transform_values(m, (k, v) -> v), array_sort(xs, (l, r) -> l - r) FROM {t}

SELECT a, count(DISTINCT b, d) FROM {t} GROUP BY GROUPING SETS ((a), ()) HAVING count(*) > 1 ORDER BY a NULLS LAST LIMIT ALL

SELECT a, sum(b) AS z FROM {t} GROUP BY CUBE (a) QUALIFY row_number() OVER (PARTITION BY a ORDER BY z) = 1

SELECT a, sum(b) OVER w FROM {t} WINDOW w AS (PARTITION BY a ORDER BY d ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)

SELECT any_value(a) FILTER (WHERE b > 1), percentile_cont(0.5) WITHIN GROUP (ORDER BY b), listagg(a, ',') WITHIN GROUP (ORDER BY b) FROM {t}

SELECT a FROM {t} DISTRIBUTE BY b SORT BY d

SELECT a FROM {t} CLUSTER BY b

SELECT t.a, v.x FROM {t} t, LATERAL (SELECT t.b AS x) v

SELECT a, x FROM {t} LATERAL VIEW OUTER explode(xs) AS x

SELECT a, e.x FROM {t} LATERAL VIEW explode(xs) e AS x LATERAL VIEW posexplode(split(x, ',')) f AS p, c WHERE p > c

SELECT a, col FROM {t}, LATERAL explode(xs)

SELECT a, y FROM {t} JOIN LATERAL explode(xs) AS t(y)

SELECT a AS z, z + 1 AS w, w * 2 FROM {t} WHERE a > 1

SELECT s.f.g, s.f['x'], xs[0].z, m.key, m['k'].q FROM {t}

SELECT {t}.a FROM {t}

SELECT * FROM {t} NATURAL JOIN {u}

SELECT t.a, u.k FROM {t} t JOIN {u} u USING (a) WHERE EXISTS (SELECT 1 FROM {u} v WHERE v.k = t.b AND u.k > 1)

SELECT a, (SELECT max(k) FROM {u} WHERE k = b) FROM {t}

SELECT a FROM {t} WHERE a IN (SELECT k FROM {u}) AND (a, b) IN (SELECT a, k FROM {u})

WITH q AS (SELECT a FROM {t}), r AS (SELECT a AS c FROM q) SELECT q.a, r.c FROM q, r

WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r

WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r

SELECT c.x FROM (SELECT a AS x, count(1) FROM {t} GROUP BY a) c ORDER BY `count(1)`

SELECT `count(1)` FROM (SELECT count(1) FROM {t})

SELECT id FROM range(10)

SELECT col1, col2 FROM VALUES (1, 2)

SELECT x FROM VALUES (1, 2) AS v(x, y)

SELECT * FROM {t} TABLESAMPLE (10 PERCENT) s WHERE s.a > 1

SELECT current_date, current_timestamp, current_user, user FROM {t}

SELECT a FROM {t} UNION ALL SELECT k FROM {u} ORDER BY a

SELECT A, T.B FROM {t} T

SELECT max_by(a, b), min(struct(a, b AS q)).q, named_struct('z', a).z FROM {t}

SELECT explode(m) AS (k, v) FROM {t}

SELECT k FROM (SELECT explode(m) AS (k, v) FROM {t})

SELECT inline(xs) FROM {t}

SELECT q FROM (SELECT inline(xs) FROM {t})

SELECT * EXCEPT (a), b AS c FROM {t}

SELECT b FROM (SELECT * EXCEPT (a) FROM {t})

FROM {t} SELECT a WHERE b > 1

SELECT a FROM {t} GROUP BY ALL ORDER BY ALL

SELECT t1.a, t2.k FROM ({t} t1 JOIN {u} t2 ON t1.a = t2.a) WHERE t2.k > 1

SELECT d FROM (SELECT a, b, d FROM {t}) PIVOT (sum(b) FOR a IN (1, 2))

SELECT window.start, count(*) FROM {t} GROUP BY window(d, '1 day')

SELECT try_cast(a AS INT), if(a > 1, b, NULL), nvl2(a, b, d), decode(a, 1, 'x'), a RLIKE 'x', a LIKE ANY ('x', 'y'), a IS DISTINCT FROM b, a DIV b, NOT a, -b, a <=> b FROM {t}

SELECT date '2020-01-01' + a, timestamp '2020-01-01', DATE'2020-01-01' FROM {t}

SELECT stack(2, a, b, d, a) AS (p, q) FROM {t}

SELECT to_json(struct(*)), count(*), hash(*) FROM {t}

SELECT a, rank() OVER (PARTITION BY b ORDER BY d DESC) rk FROM {t} QUALIFY rk = 1

SELECT t.* EXCEPT (a), u.* FROM {t} t JOIN {u} u ON t.a <=> u.a

SELECT a, CASE b WHEN 1 THEN 'x' ELSE d END FROM {t} LIMIT 5 OFFSET 2

SELECT year, month FROM (SELECT year(d) AS year, month(d) month FROM {t})

SELECT a FROM {t} t ANTI JOIN {u} u ON t.a = u.a AND u.k > 1

SELECT x.v FROM {t} LATERAL VIEW json_tuple(a, 'v') x AS v

SELECT collect_list(named_struct('a', a)) FROM {t}

SELECT count_if(a > 1), sum(DISTINCT b), approx_percentile(a, array(0.5), 100), first(a, true), first_value(a) IGNORE NULLS OVER (ORDER BY b) FROM {t}

SELECT /*+ BROADCAST(u), REPARTITION(3) */ t.a FROM {t} t JOIN {u} u ON t.a=u.a

SELECT variant_get(a, '$.x', 'int'), parse_json(a):x.y FROM {t}

SELECT make_date(year(d), 1, 1), sequence(a, b, interval 1 day) FROM {t}

SELECT session_window.end FROM {t} GROUP BY session_window(d, '5 minutes')

SELECT a FROM {t} |> WHERE a > 1

FROM {t} |> SELECT a, b |> SET b = 2

FROM {t} |> EXTEND a + 1 AS z |> AGGREGATE sum(z) AS y GROUP BY b

TABLE {t}

VALUES (1, 'a;b')

(SELECT a FROM {t}) UNION ALL (SELECT 2) ;
 -- done

SELECT a FROM {t} WHERE

SELECT array(1)::array<bigint>

SELECT a FROM {t} WHERE a < 1 OR s.f.g > 2

SELECT 'it''s', "double", r'raw\', 'a\'b' FROM {t}

SELECT /* ( */ a -- (
FROM {t}

SELECT a `b(` FROM {t}
