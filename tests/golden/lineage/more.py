"""Queries for the oracle only: nobody wrote down what comes of them."""

from __future__ import annotations

from typing import Final

QUERIES: Final = (
    "select customer_id, sum(amount) s, avg(order_id) a from {orders} group by customer_id",
    "select status, count(distinct note) n from {orders} group by status having max(amount) > 3",
    "select order_id, sum(amount) over (partition by status order by day) s from {orders}",
    "select o.order_id, c.name from {orders} o left join {customers} c on o.customer_id = c.id",
    "select c.region, max(o.amount) m from {orders} o join {customers} c on o.note = c.email "
    "group by c.region",
    "select name from {customers} where id in (select customer_id from {orders} where amount > 3)",
    "select name from {customers} c where not exists (select 1 from {orders} o "
    "where o.customer_id = c.id and o.status = 'open')",
    "select order_id, (select max(name) from {customers} c where c.id = o.customer_id) n "
    "from {orders} o",
    "select order_id, t from {orders} lateral view outer explode(tags) x as t where t <> 'b'",
    "select p, t from {orders} lateral view posexplode(tags) x as p, t",
    "select s.city, count(*) n from (select address s from {orders}) group by s.city",
    "select max(struct(day, note)).note n from {orders}",
    "select min(struct(amount, status, note)).status n from {orders}",
    "select customer_id, max_by(note, day) n, min_by(status, amount) m from {orders} "
    "group by customer_id",
    "select transform(array_sort(collect_list(struct(amount, note))), x -> x.note) n from {orders}",
    "select collect_set(status) s, array_distinct(collect_list(customer_id)) c from {orders}",
    "select size(filter(collect_list(struct(amount, note)), x -> x.amount > 3)) n from {orders}",
    "select map_from_entries(collect_list(struct(order_id, note)))[3] n from {orders}",
    "select map_keys(map_from_arrays(collect_list(order_id), collect_list(status))) k "
    "from {orders}",
    "select element_at(map('a', note, 'b', status), 'a') a from {orders}",
    "select m[status] v from (select status, map('paid', note, 'open', day) m from {orders})",
    "select array(note, status)[cast(amount as int) % 2] a from {orders}",
    "select stack(2, 'a', note, 'b', status) as (k, v) from {orders}",
    "select inline(array(struct(note as a, amount as b), struct(status as a, 1 as b))) "
    "from {orders}",
    "select k, v from {orders} lateral view explode(attrs) x as k, v",
    "select e.a, e.b from (select explode(array(struct(note as a, day as b))) e from {orders})",
    "with recursive t(a, b, n) as (select note, status, 1 from {orders} union all "
    "select b, a, n + 1 from t where n < 3) select a from t",
    "with recursive t as (select id, referrer, name p from {customers} where referrer is null "
    "union all select c.id, c.referrer, concat(t.p, '/', c.name) from {customers} c join t "
    "on c.referrer = t.id) select id, p from t",
    "select case when amount > 3 then note when status = 'x' then 'x' else upper(status) end l "
    "from {orders}",
    "select nullif(status, 'x') s, nvl(note, status) n, coalesce(note, status) c from {orders}",
    "select listagg(note, ',') within group (order by amount) l from {orders}",
    "select percentile_cont(0.5) within group (order by amount) p from {orders}",
    "select status, first_value(note) over (partition by status order by day) n from {orders}",
    "select order_id, lag(note, 1, status) over (order by day) n from {orders}",
    "select order_id, rank() over (order by amount desc) r from {orders}",
    "select note from {orders} union select email from {customers}",
    "select note from {orders} intersect select email from {customers}",
    "select note from {orders} except select email from {customers}",
    "select distinct status, customer_id from {orders}",
    "select customer_id from {orders} order by amount desc limit 2",
    "select * from (select customer_id, status, amount from {orders}) "
    "pivot (sum(amount) for status in ('paid' p, 'open' o))",
    "select * from (select id, name, email from {customers}) unpivot (t for w in (name, email))",
    "select status, customer_id, sum(amount) s from {orders} group by cube (status, customer_id)",
    "select a.name, b.name c from {customers} a join {customers} b on a.referrer = b.id",
    "select o.order_id, z.n from {orders} o, lateral (select c.name n from {customers} c "
    "where c.id = o.customer_id) z",
    "select aggregate(tags, '', (a, x) -> concat(a, x)) c, exists(tags, x -> x = status) e "
    "from {orders}",
    "select zip_with(tags, array(note, status), (a, b) -> concat(a, b)) z from {orders}",
    "select transform_values(attrs, (k, v) -> concat(k, note)) t, map_filter(attrs, "
    "(k, v) -> v > status) f from {orders}",
    "select map_keys(transform_keys(map(status, note), (k, v) -> upper(k))) k from {orders}",
    "select arrays_zip(array(note), array(status))[0] z from {orders}",
    "select flatten(array(tags, array(note))) f, sort_array(tags) s, reverse(tags) r from {orders}",
    "select named_struct('a', note, 'b', named_struct('c', status)).b.c c from {orders}",
    "select if(amount > 3, address, named_struct('street', note, 'city', status)).city c "
    "from {orders}",
    "select isnull(struct(note, status)) i, size(array(note, status)) s from {orders}",
    "select count_if(amount > 3) c, any_value(status) a, bool_and(day < '2025-02-01') b "
    "from {orders}",
    "select corr(amount, order_id) c, sum(amount) filter (where status = 'paid') f from {orders}",
    "select address.* from {orders} where address.city = 'city 1'",
    "select ntile(2) over (order by amount) n, cume_dist() over (order by day) c from {orders}",
    "select from_json(note, 'a string, b string').a a, json_tuple(note, 'b') b from {orders}",
    "select order_id from {orders} where array_contains(tags, status) or attrs['k'] = '2'",
    "select try_element_at(tags, 2) t, attrs['colour'] c, slice(tags, 1, 1) s from {orders}",
    "select x.n from (select collect_list(struct(note as n, day as d)) x from {orders})",
)
