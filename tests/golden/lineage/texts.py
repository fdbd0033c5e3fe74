"""Texts for the comparison of the plan with the text of a query. Most are one trap each."""

from __future__ import annotations

from typing import Final

NOT_PARSED: Final = (
    "select to_json(struct(note n, day d)) e from {orders}",
    "select parse_json(note):a::string x from {orders}",
    "from {orders} |> set note = status |> select note",
)
"""What the parser of the text does not know."""
TEXTS: Final = (
    # stars
    "select s.note from (select struct(*) s from {orders})",
    "select struct(*) s, to_json(struct(*)) j, hash(*) h, array(name, email) a from {customers}",
    "select s.note n, s.street t from (select struct(address.*, note) s from {orders})",
    "select hash(c.*) g, count(*) n, count(c.*) m, count(distinct *) o from {customers} c",
    "select concat_ws(',', *) c, coalesce(name, *) d from (select name, email from {customers})",
    "select address.* from {orders}",
    "select o.address.*, o.note from {orders} o",
    "select t.* from (select address.*, note from {orders}) t",
    "select t.a, t.c from (select address.*, note from {orders}) t(a, b, c)",
    "select address.*, note from {orders} union all select name, email, region from {customers}",
    "select struct(*) s from (select address.*, note from {orders})",
    "select named_struct('a', note, 'b', status).* from {orders}",
    "select struct(upper(note), 1, amount as x).* from {orders}",
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
    "select sum(amount) over w1 s, sum(amount) over (w0 order by note) t from {orders} "
    "window w0 as (partition by status), w1 as (w0 order by day)",
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
    "and p.day = o.day))",
    "select o.order_id, x.m from {orders} o left join lateral (select max(c.name) m "
    "from {customers} c where c.id = o.customer_id) x",
    # set operations, common table expressions
    "(select note from {orders} order by amount limit 3) union all select email from {customers}",
    "select note, status from {orders} union all by name select email status, name note "
    "from {customers}",
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
    *NOT_PARSED,
)
