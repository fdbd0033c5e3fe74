"""Queries: each is also analyzed from its text alone."""

from __future__ import annotations

from tests.golden.lineage.case import Case

KEYS = ["orders.customer_id join", "customers.id join"]

CASES = (
    Case(
        "sql: select and cast",
        sql="select order_id, amount * 2 twice, cast(amount as int) whole, 1 as one from {orders}",
        columns={
            "order_id": ["orders.order_id"],
            "twice": ["orders.amount transformation"],
            "whole": ["orders.amount transformation"],
            "one": [],
        },
    ),
    Case(
        "sql: star",
        sql="select * from {customers}",
        columns={
            "id": ["customers.id"],
            "name": ["customers.name"],
            "email": ["customers.email"],
            "region": ["customers.region"],
            "referrer": ["customers.referrer"],
        },
    ),
    Case(
        "sql: star except",
        sql="select c.* except (email, region, referrer), upper(region) r from {customers} c",
        columns={
            "id": ["customers.id"],
            "name": ["customers.name"],
            "r": ["customers.region transformation"],
        },
    ),
    Case(
        "sql: names in any case",
        sql="select O.Order_ID as id, AMOUNT as amount from {orders} o where STATUS = 'x'",
        columns={"id": ["orders.order_id"], "amount": ["orders.amount"]},
        influences=["orders.status filter"],
    ),
    Case(
        "sql: join, where, order",
        sql=(
            "select o.order_id, c.name from {orders} o left join {customers} c "
            "on o.customer_id = c.id where c.region = 'eu' order by o.day desc limit 5"
        ),
        columns={"order_id": ["orders.order_id"], "name": ["customers.name"]},
        influences=[*KEYS, "customers.region filter", "orders.day sort"],
    ),
    Case(
        "sql: using",
        sql=(
            "select id, name, amount from (select customer_id as id, amount from {orders}) "
            "join {customers} using (id)"
        ),
        columns={
            "id": ["orders.customer_id"],
            "name": ["customers.name"],
            "amount": ["orders.amount"],
        },
        influences=KEYS,
    ),
    Case(
        "sql: full join using",
        sql=(
            "select * from (select customer_id as id, amount from {orders}) o "
            "full join (select id, name from {customers}) c using (id)"
        ),
        columns={
            "id": ["orders.customer_id transformation", "customers.id transformation"],
            "amount": ["orders.amount"],
            "name": ["customers.name"],
        },
        influences=KEYS,
    ),
    Case(
        "sql: natural join",
        sql=(
            "select name, amount from (select customer_id as id, amount from {orders}) o "
            "natural join {customers} c"
        ),
        columns={"name": ["customers.name"], "amount": ["orders.amount"]},
        influences=KEYS,
    ),
    Case(
        "sql: comma join",
        sql="select name, note from {orders} o, {customers} c where o.customer_id = c.id",
        columns={"name": ["customers.name"], "note": ["orders.note"]},
        influences=["orders.customer_id filter", "customers.id filter"],
    ),
    Case(
        "sql: semi join",
        sql="select * from (select order_id, customer_id from {orders}) o "
        "left semi join {customers} c on o.customer_id = c.id",
        columns={"order_id": ["orders.order_id"], "customer_id": ["orders.customer_id"]},
        influences=KEYS,
    ),
    Case(
        "sql: anti join",
        sql="select order_id from {orders} o left anti join {customers} c on o.customer_id = c.id",
        columns={"order_id": ["orders.order_id"]},
        influences=KEYS,
    ),
    Case(
        "sql: self join",
        sql="select a.name, b.name by from {customers} a join {customers} b on a.referrer = b.id",
        columns={"name": ["customers.name"], "by": ["customers.name"]},
        influences=["customers.referrer join", "customers.id join"],
    ),
    Case(
        "sql: group by and having",
        sql=(
            "select customer_id, sum(amount) as total, count(*) as n, count(distinct note) notes "
            "from {orders} group by customer_id having max(day) > '2025-01-01'"
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "total": ["orders.amount aggregation"],
            "n": [],
            "notes": ["orders.note aggregation masked"],
        },
        influences=["orders.customer_id group_by", "orders.day filter"],
    ),
    Case(
        "sql: group by position and alias",
        sql="select upper(status) as s, day, sum(amount) t from {orders} group by s, 2 order by 3",
        columns={
            "s": ["orders.status transformation"],
            "day": ["orders.day"],
            "t": ["orders.amount aggregation"],
        },
        influences=["orders.status group_by", "orders.day group_by", "orders.amount sort"],
    ),
    Case(
        "sql: group by all",
        sql="select status, sum(amount) t from {orders} group by all",
        columns={"status": ["orders.status"], "t": ["orders.amount aggregation"]},
        influences=["orders.status group_by"],
    ),
    Case(
        "sql: filtered aggregate",
        sql="select sum(amount) filter (where status = 'paid') as paid from {orders}",
        columns={"paid": ["orders.amount aggregation", "orders.status conditional"]},
    ),
    Case(
        "sql: max_by",
        sql="select customer_id, max_by(note, day) as last from {orders} group by customer_id",
        columns={
            "customer_id": ["orders.customer_id"],
            "last": ["orders.note aggregation", "orders.day conditional"],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "sql: rollup",
        sql="select status, day, sum(amount) t from {orders} group by rollup (status, day)",
        columns={
            "status": ["orders.status"],
            "day": ["orders.day"],
            "t": ["orders.amount aggregation"],
        },
        influences=["orders.status group_by", "orders.day group_by"],
    ),
    Case(
        "sql: grouping sets",
        sql=(
            "select status, day, grouping(day) g, sum(amount) t from {orders} "
            "group by grouping sets ((status), (status, day))"
        ),
        columns={
            "status": ["orders.status"],
            "day": ["orders.day"],
            "g": [],
            "t": ["orders.amount aggregation"],
        },
        influences=["orders.status group_by", "orders.day group_by"],
    ),
    Case(
        "sql: windows",
        sql=(
            "select order_id, row_number() over (partition by customer_id order by day) n, "
            "sum(amount) over w running, lag(amount, 1) over w before, "
            "first_value(note) over w first "
            "from {orders} window w as (partition by status order by day)"
        ),
        columns={
            "order_id": ["orders.order_id"],
            "n": ["orders.customer_id window", "orders.day window"],
            "running": [
                "orders.amount aggregation",
                "orders.status window",
                "orders.day window",
            ],
            "before": [
                "orders.amount transformation",
                "orders.status window",
                "orders.day window",
            ],
            "first": ["orders.note aggregation", "orders.status window", "orders.day window"],
        },
    ),
    Case(
        "sql: case and if",
        sql=(
            "select case when amount > 1 then note else status end a, "
            "case status when 'x' then note end b, if(day is null, note, status) c, "
            "nullif(note, status) d, nvl(note, 'x') e, nvl2(note, status, day) f from {orders}"
        ),
        columns={
            "a": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.amount conditional",
            ],
            "b": ["orders.note transformation", "orders.status conditional"],
            "c": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.day conditional",
            ],
            "d": [
                "orders.note transformation",
                "orders.note conditional",
                "orders.status conditional",
            ],
            "e": ["orders.note transformation"],
            "f": [
                "orders.status transformation",
                "orders.day transformation",
                "orders.note conditional",
            ],
        },
    ),
    Case(
        "sql: hashes",
        sql="select md5(email) a, sha2(email, 256) b, xxhash64(name) c, hash(id, name) d "
        "from {customers}",
        columns={
            "a": ["customers.email transformation masked"],
            "b": ["customers.email transformation masked"],
            "c": ["customers.name transformation masked"],
            "d": ["customers.id transformation masked", "customers.name transformation masked"],
        },
    ),
    Case(
        "sql: scalar sub-query",
        sql="select order_id, (select max(id) from {customers}) as newest from {orders}",
        columns={"order_id": ["orders.order_id"], "newest": ["customers.id aggregation"]},
    ),
    Case(
        "sql: correlated scalar sub-query",
        sql=(
            "select order_id, (select max(c.name) from {customers} c where c.id = o.customer_id) "
            "as who from {orders} o"
        ),
        columns={
            "order_id": ["orders.order_id"],
            "who": [
                "customers.name aggregation",
                "customers.id filter",
                "orders.customer_id filter",
            ],
        },
    ),
    Case(
        "sql: in and exists",
        sql=(
            "select order_id from {orders} o where customer_id in "
            "(select id from {customers} where region = 'eu') and exists "
            "(select 1 from {customers} c where c.email = o.note)"
        ),
        columns={"order_id": ["orders.order_id"]},
        influences=[
            "orders.customer_id filter",
            "customers.id filter",
            "customers.region filter",
            "customers.email filter",
            "orders.note filter",
        ],
    ),
    Case(
        "sql: sub-query in from",
        sql=(
            "select t.total * 2 as twice from (select customer_id, sum(amount) as total "
            "from {orders} where status = 'paid' group by customer_id) t"
        ),
        columns={"twice": ["orders.amount aggregation"]},
        influences=["orders.status filter", "orders.customer_id group_by"],
    ),
    Case(
        "sql: common table expressions",
        sql=(
            "with a as (select customer_id, sum(amount) t from {orders} group by customer_id), "
            "b (who, much) as (select * from a), unused as (select * from {orders} where day > '1')"
            " select c.name, b.much, a.t from b join a on a.customer_id = b.who "
            "join {customers} c on c.id = b.who"
        ),
        columns={
            "name": ["customers.name"],
            "much": ["orders.amount aggregation"],
            "t": ["orders.amount aggregation"],
        },
        influences=["orders.customer_id group_by", *KEYS],
    ),
    Case(
        "sql: union all, by position",
        sql="select order_id, note from {orders} union all select id, email from {customers}",
        columns={
            "order_id": ["orders.order_id", "customers.id"],
            "note": ["orders.note", "customers.email"],
        },
    ),
    Case(
        "sql: union",
        sql="select note from {orders} union select email from {customers}",
        columns={"note": ["orders.note", "customers.email"]},
        influences=["orders.note group_by", "customers.email group_by"],
    ),
    Case(
        "sql: intersect and except",
        sql="select customer_id from {orders} intersect select id from {customers} "
        "except select referrer from {customers}",
        columns={"customer_id": ["orders.customer_id"]},
        influences=[*KEYS, "customers.referrer join"],
    ),
    Case(
        "sql: distinct",
        sql="select distinct status, lower(note) n from {orders}",
        columns={"status": ["orders.status"], "n": ["orders.note transformation"]},
        influences=["orders.status group_by", "orders.note group_by"],
    ),
    Case(
        "sql: lateral view",
        sql=(
            "select order_id, t.tag, k, upper(v) u from {orders} "
            "lateral view explode(tags) t as tag lateral view outer explode(attrs) m as k, v"
        ),
        columns={
            "order_id": ["orders.order_id"],
            "tag": ["orders.tags transformation"],
            "k": ["orders.attrs transformation"],
            "u": ["orders.attrs transformation"],
        },
        influences=["orders.tags filter", "orders.attrs filter"],
    ),
    Case(
        "sql: explode in select",
        sql="select order_id, explode(attrs) as (k, v) from {orders}",
        columns={
            "order_id": ["orders.order_id"],
            "k": ["orders.attrs transformation"],
            "v": ["orders.attrs transformation"],
        },
        influences=["orders.attrs filter"],
    ),
    Case(
        "sql: lateral sub-query",
        sql=(
            "select o.order_id, z.n from {orders} o, "
            "lateral (select c.name as n from {customers} c where c.id = o.customer_id) z"
        ),
        columns={"order_id": ["orders.order_id"], "n": ["customers.name"]},
        influences=["customers.id filter", "orders.customer_id filter"],
    ),
    Case(
        "sql: nested data",
        sql=(
            "select address.city, o.address.street s, tags[0] t, attrs['k'] a, "
            "named_struct('n', note, 'x', amount) st, array(note, status) ar from {orders} o"
        ),
        columns={
            "city": ["orders.address transformation"],
            "s": ["orders.address transformation"],
            "t": ["orders.tags transformation"],
            "a": ["orders.attrs transformation"],
            "st": ["orders.note transformation", "orders.amount transformation"],
            "ar": ["orders.note transformation", "orders.status transformation"],
        },
    ),
    Case(
        "sql: higher-order functions",
        sql=(
            "select transform(tags, x -> concat(x, note)) t, filter(tags, x -> x = status) f, "
            "aggregate(tags, '', (a, x) -> concat(a, x)) g, exists(tags, x -> x = note) e "
            "from {orders}"
        ),
        columns={
            "t": ["orders.tags transformation", "orders.note transformation"],
            "f": ["orders.tags transformation", "orders.status conditional"],
            "g": ["orders.tags transformation"],
            "e": ["orders.tags transformation", "orders.note transformation"],
        },
    ),
    Case(
        "sql: an alias of the same select",
        sql="select amount * 2 as twice, twice + 1 as more from {orders}",
        columns={
            "twice": ["orders.amount transformation"],
            "more": ["orders.amount transformation"],
        },
    ),
    Case(
        "sql: pivot",
        sql=(
            "select * from (select customer_id, status, amount from {orders}) "
            "pivot (sum(amount) for status in ('paid' as paid, 'open' as open))"
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "paid": ["orders.amount aggregation", "orders.status conditional"],
            "open": ["orders.amount aggregation", "orders.status conditional"],
        },
        influences=["orders.customer_id group_by", "orders.status group_by"],
    ),
    Case(
        "sql: unpivot",
        sql=(
            "select * from (select id, name, email from {customers}) "
            "unpivot (text for what in (name, email))"
        ),
        columns={
            "id": ["customers.id"],
            "what": [],
            "text": ["customers.name", "customers.email"],
        },
        influences=["customers.name filter", "customers.email filter"],  # nulls are left out
    ),
    Case(
        "sql: unpivot with nulls",
        sql=(
            "select * from (select id, name, email from {customers}) "
            "unpivot include nulls (text for what in (name, email))"
        ),
        columns={
            "id": ["customers.id"],
            "what": [],
            "text": ["customers.name", "customers.email"],
        },
    ),
    Case(
        "sql: dates",
        sql="select date_trunc('month', day) m, date_add(day, 1) d, extract(year from day) y "
        "from {orders}",
        columns={
            "m": ["orders.day transformation"],
            "d": ["orders.day transformation"],
            "y": ["orders.day transformation"],
        },
    ),
    Case(
        "sql: ranking over an aggregate",
        sql=(
            "select customer_id, sum(amount) t, rank() over (order by sum(amount) desc) r "
            "from {orders} group by customer_id"
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "t": ["orders.amount aggregation"],
            "r": ["orders.amount window"],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "sql: recursive",
        sql=(
            "with recursive up as (select id, referrer, 0 as depth from {customers} "
            "where referrer is null union all select c.id, c.referrer, up.depth + 1 "
            "from {customers} c join up on c.referrer = up.id) select id, depth from up"
        ),
        columns={"id": ["customers.id"], "depth": []},
        influences=["customers.referrer filter", "customers.referrer join", "customers.id join"],
    ),
    Case(
        "sql: unknown values",
        sql="select o.order_id, v.b from {orders} o join values (1, 'x') as v(a, b) "
        "on o.order_id = v.a",
        columns={"order_id": ["orders.order_id"]},
        influences=["orders.order_id join"],
        unmapped=["b"],
    ),
)
