"""Texts for the comparison of the plan with the text of a query. Most are one trap each."""

from __future__ import annotations

from typing import Final

NOT_PARSED: Final = (
    "select to_json(struct(note n, day d)) e from {orders}",
    "select parse_json(note):a::string x from {orders}",
    "from {orders} |> set note = status |> select note",
)
"""What the parser of the text does not know."""
MORE_THAN_THE_PLAN: Final = {
    "select inline(array(struct(note as a, amount as b), struct(status as a, 1 as b))) "
    "from {orders}": "the types of the two structs differ, so that Spark casts one of them",
    "select * from (select customer_id, status, day, amount from {orders}) pivot "
    "(sum(amount) s, max(day) d for status in ('paid', 'open'))": (
        "how Spark groups a pivot depends on the types of its aggregates"
    ),
}
"""Where the text cannot know what the plan does, and names a kind or an influence more."""
TEXTS: Final = (
    # stars
    "select s.note from (select struct(*) s from {orders})",
    "select struct(*) s, to_json(struct(*)) j, hash(*) h, array(name, email) a from {customers}",
    "select s.note n, s.street t from (select struct(address.*, note) s from {orders})",
    "select hash(c.*) g, mask(name) m from {customers} c",
    "select count(*) n, count(distinct *) o from {customers} c",
    "select concat_ws(',', *) c, coalesce(name, *) d from (select name, email from {customers})",
    "select address.* from {orders}",
    "select o.address.*, o.note from {orders} o",
    "select t.* from (select address.*, note from {orders}) t",
    "select t.a, t.c from (select address.*, note from {orders}) t(a, b, c)",
    "select address.*, note from {orders} union all select name, email, region from {customers}",
    "select struct(*) s from (select address.*, note from {orders})",
    "select s.* from (select struct(upper(note), 1, amount as x) s from {orders})",
    "select struct(* except (note)).status x from {orders}",
    "select * except (address.city) from {orders}",
    "select c.*, o.* except (note, tags, attrs, address) from {orders} o, {customers} c",
    "select * from {orders} o join {customers} c on o.customer_id = c.id",
    "select * from {orders} o natural join (select customer_id, status s from {orders}) p",
    "select distinct * from {customers}",
    # names
    "select identifier('note') n, identifier('o.status') s from {orders} o",
    "select identifier('no' || 'te') n from {orders}",
    "select a.order_id, c.email from {orders} a join ({customers} b join {customers} c "
    "on b.id = c.referrer) on a.customer_id = b.id",
    "select a.order_id, b.name from {orders} a join ({customers} b join "
    "(select id, email e from {customers}) c using (id)) on a.customer_id = b.id",
    "select `O`.`Note` from {orders} o where `o`.AMOUNT > 1",
    "select note as status, status as note from {orders} order by status",
    "select amount + 1 as amount from {orders} where amount > 2 order by amount",
    "select x.y from (select named_struct('y', note) x from {orders})",
    "select o.address.city c, address.street from {orders} o",
    # windows
    "select sum(amount) over w1 s, sum(amount) over (w0) t, max(note) over w2 m from {orders} "
    "window w0 as (partition by status order by day), w1 as (w0), w2 as w0",
    "select percentile_cont(0.5) within group (order by amount) over (partition by status) p "
    "from {orders}",
    "select lead(note, 2, status) over (order by day) l, nth_value(note, 2) over "
    "(partition by status order by day) n from {orders}",
    "select dense_rank() over (order by amount) d, percent_rank() over (order by day) p, "
    "row_number() over (partition by status order by amount, note) r from {orders}",
    # aggregates
    "select mode(status) m, median(amount) d, percentile(amount, 0.5) p, "
    "percentile_approx(amount, 0.5) a from {orders}",
    "select any(amount > 1) a, some(amount > 1) s, every(amount > 1) e, bool_and(amount > 1) b "
    "from {orders}",
    "select first(note) filter (where amount > 1) f, first(note, true) g, last(note) l, "
    "any_value(note) a from {orders}",
    "select max_by(struct(note, status), amount).note n from {orders}",
    "select collect_list(struct(note, day))[0].note n, array_agg(note) a from {orders}",
    "select count_if(amount > 1) c, approx_count_distinct(note) d, count(note, status) e "
    "from {orders}",
    "select stddev(amount) s, variance(amount) v, skewness(amount) k, corr(amount, order_id) c "
    "from {orders}",
    "select try_sum(amount) s, try_avg(amount) a, bit_or(order_id) b from {orders}",
    "select string_agg(note, ',') within group (order by day) l from {orders}",
    "select grouping_id(status) g from {orders} group by cube(status)",
    "select status, sum(amount) from {orders} group by status with rollup",
    # conditions
    "select note like any ('%a%', status) a, note like all ('a') b, note not like any ('a') c, "
    "note ilike any ('x') d, note rlike status e from {orders}",
    "select decode(status, 'x', note, 'y', upper(note), 'z') d from {orders}",
    "select nvl2(note, status, 'z') x, ifnull(note, status) y, nullif(note, status) n, "
    "zeroifnull(amount) z, nullifzero(amount) q from {orders}",
    "select greatest(order_id, customer_id) g, least(order_id, customer_id) l from {orders}",
    "select case status when 'x' then note end c, if(amount > 1, note, status) i from {orders}",
    "select order_id between customer_id and 10 b, note is null n, note <=> status e, "
    "amount is not null m, not (amount > 1) o from {orders}",
    # casts and functions
    "select try_cast(note as int) t, note::int u, int(note) v, cast(day as timestamp) w "
    "from {orders}",
    "select substring(note, 1, 2) a, note || status b, trim(both ' ' from note) c, "
    "position('a' in note) d, overlay(note placing 'x' from 1) e from {orders}",
    "select extract(month from day) m, day + interval 1 day d, datediff(day, '2025-01-01') f, "
    "date_format(day, 'yyyy') g from {orders}",
    "select current_date() d, rand() r, uuid() u, 1 + 1 n, null x from {orders}",
    "select split(note, ',')[0] a, regexp_extract(note, '(a)', 1) b, from_json(note, 'a int').a c "
    "from {orders}",
    # generators
    "select posexplode(array(note, status)) from {orders}",
    "select explode(map(status, note)) from {orders}",
    "select stack(2, 'a', note, 'b', status) from {orders}",
    "select inline(arr) from (select array(struct(note, amount)) arr from {orders})",
    "select x.t.n, t.d from {orders} o lateral view explode(array(struct(o.note as n, o.day as d)))"
    " x as t",
    "select o.order_id, e.* from {orders} o, lateral explode(o.attrs) e",
    "select col from {orders}, lateral explode(tags)",
    "select order_id, k from {orders} lateral view outer explode(map_keys(attrs)) x as k",
    "select o.order_id, n.id from {orders} o, range(3) n",
    # sub-queries
    "select order_id from {orders} where amount > (select avg(referrer) from {customers})",
    "select order_id from {orders} where (customer_id, note) in "
    "(select id, email from {customers})",
    "select (select named_struct('a', max(name), 'b', max(email)) from {customers}).a x "
    "from {orders}",
    "select order_id, customer_id in (select id from {customers} where region = 'eu') i, "
    "exists (select 1 from {customers} c where c.id = o.customer_id) e from {orders} o",
    "select order_id from {orders} o where exists (select 1 from {customers} c where c.id = "
    "o.customer_id and exists (select 1 from {orders} p where p.note = c.email "
    "and p.day is null))",
    "select o.order_id, x.m from {orders} o left join lateral (select max(c.name) m "
    "from {customers} c where c.id = o.customer_id) x",
    # set operations, common table expressions
    "(select note from {orders} order by amount limit 3) union all select email from {customers}",
    "select note from {orders} minus select email from {customers}",
    "with a as (with b as (select note n from {orders}) select n from b) select * from a",
    "with a(x) as (select note from {orders}), b as (select x y from a) select y from b, a",
    "with orders as (select name note from {customers}) select note from orders",
    "with recursive t(n) as (select 1 union all select n + 1 from t where n < 3) "
    "select o.note, t.n from {orders} o join t on t.n = o.order_id",
    "from {orders} |> where amount > 1 |> aggregate sum(amount) s group by status",
    "from {orders} |> select note, amount |> extend upper(note) as u |> order by amount",
    "select * from (select customer_id, status, day, amount from {orders}) pivot "
    "(sum(amount) s, max(day) d for status in ('paid', 'open'))",
    "select * from (select id, name, email from {customers}) c unpivot (t for w in "
    "(name as n, email as e)) as u",
    "table {orders}",
    "values (1, 2)",
    "select * from values (1, 'a') t(x, y)",
    "select order_id from {orders} cluster by note",
    "select order_id from {orders} distribute by note sort by amount",
    "select /*+ broadcast(o) */ o.note from {orders} o",
    "select order_id from {orders} tablesample (50 percent) where day is not null",
    # structs, arrays, maps
    "select transform(array(struct(note as n, status as s)), x -> x.n)[0] a from {orders}",
    "select transform(tags, (x, i) -> concat(x, i)) t, array_contains(tags, status) c, "
    "size(tags) n, tags[size(tags) - 1] l from {orders}",
    "select map('a', note, 'b', status)['a'] x, element_at(map('a', note, 'b', status), 'b') y, "
    "map_values(map('a', note)) v, map_from_arrays(array('k'), array(note))['k'] w from {orders}",
    "select aggregate(collect_list(struct(amount, note)), 0D, (a, x) -> a + x.amount) s "
    "from {orders}",
    "select array_sort(collect_list(struct(amount, note)))[0].note n from {orders}",
    # functions
    "select isnull(struct(note, status)) i, size(array(note, status)) s, cardinality(tags) c, "
    "isnotnull(note) n from {orders}",
    "select decode(status, 'x', note, 'y', upper(note), 'z') d, decode(status, note, day) e "
    "from {orders}",
    "select nullifzero(amount) q from {orders}",
    "select map_values(map('a', note)) v, map_from_arrays(array('k'), array(note))['k'] w, "
    "map_entries(map('a', note))[0].value e, map_from_entries(array(struct('a', note)))['a'] "
    "f from {orders}",
    "select flatten(array(array(note), tags)) f, slice(array(note, status), 1, 1) s, "
    "array_distinct(array(note)) d, sort_array(array(note, status))[0] o, array_sort(tags) p, "
    "reverse(array(note))[0] r, reverse(note) q, shuffle(tags) h from {orders}",
    "select concat(array(note), array(status))[0] c, concat(tags, array(note)) d, "
    "concat(note, status) e from {orders}",
    "select map_filter(attrs, (k, v) -> v > status) f, map_filter(map(status, note), (k, v) "
    "-> k > 'a') g, map_zip_with(attrs, attrs, (k, a, b) -> concat(a, b)) z from {orders}",
    "select array_append(array(note), status) a, array_union(tags, array(note)) u, "
    "array_contains(array(note), status) c, get(tags, 0) g, get(array(note, status), 0) h "
    "from {orders}",
    "select array_max(transform(collect_list(struct(amount, note)), x -> x.amount)) m from "
    "{orders}",
    "select collect_list(note) filter (where amount > 1) c from {orders}",
    "select sort_array(collect_list(struct(amount, note)))[0].note n from {orders}",
    "select element_at(transform(tags, x -> struct(x as a, note as b)), 1).b n from {orders}",
    "select to_json(named_struct('a', note)) j, from_json(to_json(struct(note, status)), "
    "'note string').note n from {orders}",
    "select order_id, sum(amount) over (partition by status order by day range between "
    "interval 1 day preceding and current row) s from {orders}",
    "select customer_id as id, (select count(*) from {customers} c where c.id = customer_id) "
    "n from {orders}",
    "select explode(filter(tags, t -> t > status)) e, order_id from {orders}",
    "select sum(if(status = 'paid', amount, 0)) s, avg(case when day is null then 0 else "
    "amount end) a from {orders}",
    "select max(amount) filter (where day > '2025-01-01') m, count(*) filter (where status = "
    "'x') n from {orders}",
    "select percentile_disc(0.5) within group (order by amount desc) p, mode() within group "
    "(order by note) m from {orders}",
    "select first_value(note) ignore nulls over (order by day) f, lag(note) ignore nulls over "
    "(order by day) l from {orders}",
    "select address.city as c from {orders} group by address.city having count(*) > 1 order by c",
    "select o.note, row_number() over (partition by o.status order by c.name) r from {orders} "
    "o cross join {customers} c qualify r = 1",
    "select * from {orders} where note in ('a', status) and amount in (select referrer from "
    "{customers})",
    "select collate(note, 'UTF8_LCASE') c, note collate utf8_lcase d from {orders}",
    "select a.note, b.note n2 from {orders} a full outer join {orders} b on a.order_id = "
    "b.customer_id where coalesce(a.day, b.day) is not null",
    "select hll_sketch_estimate(hll_sketch_agg(note)) h, approx_percentile(amount, 0.5) p, "
    "max_by(note, amount, 2) q from {orders}",
    "select inline_outer(array(struct(note, day))) from {orders}",
    "select json_tuple(note, 'a', 'b') from {orders}",
    "select order_id, explode_outer(split(note, ',')) w from {orders}",
    "select named_struct('a', note, 'b', array(struct(day as d, amount as m))).b[0].m x from "
    "{orders}",
    "select variant_get(parse_json(note), '$.a', 'string') v from {orders}",
    "select sum(distinct amount) s, avg(distinct order_id) a, count(distinct note, status) c "
    "from {orders}",
    "select bool_or(amount > 1) filter (where status = 'x') b from {orders} group by day, "
    "customer_id",
    "select t.a from (select note a, status b from {orders} union select name, email from "
    "{customers} union all select region, email from {customers}) t where t.b is not null",
    "select customer_id, collect_list(named_struct('n', note, 'd', day)).n x from {orders} "
    "group by all",
    *NOT_PARSED,
)
