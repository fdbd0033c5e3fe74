"""Structs, arrays and maps, built and taken apart; generators; recursive queries."""

from __future__ import annotations

from typing import Any

from tests.golden.lineage.case import Case

CYCLE_OF_3 = (
    "with recursive t as (select note a, status b, cast(day as string) c, 1 n from {orders} "
    "union all select b, c, a, n + 1 from t where n < 4) select a from t"
)
CYCLE_OF_4 = (
    "with recursive t as (select note a, status b, cast(day as string) c, "
    "cast(order_id as string) d, 1 n from {orders} "
    "union all select b, c, d, a, n + 1 from t where n < 5) select a from t"
)


def _whens(depth: int) -> Any:
    def frame(x: Any) -> Any:
        label = x.F.col("note")
        for level in range(depth):
            label = x.F.when(x.F.col("amount") > level, x.F.col("status")).otherwise(label)
        return x.orders.withColumn("label", label).filter("day is not null").select("label", "day")

    return frame


def _whens_everywhere(x: Any) -> Any:
    """Inside of an aggregate, below a join, and in a condition."""
    label = x.F.col("note")
    for level in range(15):
        label = x.F.when(x.F.col("amount") > level, x.F.upper("status")).otherwise(label)
    grouped = x.orders.filter(label != "x").groupBy("customer_id").agg(x.F.max(label).alias("m"))
    return grouped.join(x.customers, x.F.col("customer_id") == x.F.col("id")).select("m", "name")


def _python_udtf(x: Any) -> Any:
    class Twice:
        def eval(self, text: str) -> Any:
            yield (text,)
            yield (text,)

    x.spark.udtf.register("twice", x.F.udtf(Twice, returnType="copy string"))
    x.orders.createOrReplaceTempView("udtf_orders")
    return x.spark.sql("select order_id, copy from udtf_orders, lateral twice(note)")


def _python_udtf_of_a_table(x: Any) -> Any:
    class Notes:
        def eval(self, row: Any) -> Any:
            yield (row["note"],)

    x.spark.udtf.register("notes", x.F.udtf(Notes, returnType="copy string"))
    x.orders.createOrReplaceTempView("udtf_orders")
    return x.spark.sql("select copy from notes(table(select note, amount from udtf_orders))")


CASES = (
    # -- structs ------------------------------------------------------------------------
    Case(
        "a field of a struct that was built",
        frame=lambda x: x.orders.select(
            x.F.struct("order_id", x.F.col("amount").alias("q")).alias("s")
        ).select("s.q"),
        columns={"q": ["orders.amount"]},
    ),
    Case(
        "a field of a struct of all columns",
        frame=lambda x: x.orders.select(x.F.struct("*").alias("s")).select("s.note", "s.amount"),
        columns={"note": ["orders.note"], "amount": ["orders.amount"]},
    ),
    Case(
        "withField and dropFields",
        frame=lambda x: x.orders.select(
            x.F.col("address").withField("zip", x.F.col("note")).dropFields("street").alias("a")
        ).select("a.city", "a.zip", "a"),
        columns={
            "city": ["orders.address transformation", "orders.address conditional"],
            "zip": ["orders.note", "orders.address conditional"],
            "a": ["orders.address transformation", "orders.note transformation"],
        },
    ),
    Case(
        "withField on a struct that was built",
        frame=lambda x: x.orders.select(
            x.F.struct("note", "amount").withField("amount", x.F.col("order_id")).alias("s")
        ).select("s.note", "s.amount"),
        columns={"note": ["orders.note"], "amount": ["orders.order_id"]},
    ),
    Case(
        "sql: fields of structs",
        sql=(
            "select s.q, s.n.x, named_struct('a', note, 'b', status).b b from "
            "(select struct(order_id, amount as q, struct(note as x, status as y) as n) s, "
            "note, status from {orders})"
        ),
        columns={"q": ["orders.amount"], "x": ["orders.note"], "b": ["orders.status"]},
    ),
    Case(
        "sql: the row with the largest key",
        sql=(
            "select m.note n, m.order_id o from (select customer_id, "
            "max(struct(amount, order_id, note, status)) m from {orders} group by customer_id)"
        ),
        columns={
            "n": [
                "orders.note aggregation",
                "orders.amount conditional",
                "orders.order_id conditional",
            ],
            "o": ["orders.order_id aggregation", "orders.amount conditional"],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "sql: a struct that a condition chooses",
        sql=(
            "select s.a from (select if(amount > 1, struct(note as a, day as b), "
            "struct(status as a, day as b)) s from {orders})"
        ),
        columns={
            "a": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.amount conditional",
            ]
        },
    ),
    Case(
        "sql: union of structs",
        sql=(
            "select s.a from (select struct(note as a, status as b) s from {orders} "
            "union all select struct(name as a, email as b) s from {customers})"
        ),
        columns={"a": ["orders.note", "customers.name"]},
    ),
    Case(
        "cast of a struct goes by position",
        frame=lambda x: x.orders.select(
            x.F.struct("note", "amount").cast("struct<amount:string,note:string>").alias("s")
        ).select("s.note", "s.amount"),
        columns={
            "note": ["orders.amount transformation"],
            "amount": ["orders.note transformation"],
        },
    ),
    Case(
        "a field of what a function made of several columns",
        frame=lambda x: x.orders.select(
            x.F.from_json(
                x.F.to_json(x.F.struct("note", "status")), "note string, status string"
            ).alias("s")
        ).select("s.note"),
        columns={"note": ["orders.note transformation", "orders.status transformation"]},
        confidence="medium",
    ),
    Case(
        "sql: a field of what a function made of several columns",
        sql="select from_json(concat(note, status), 'a string').a a from {orders}",
        columns={"a": ["orders.note transformation", "orders.status transformation"]},
        confidence="medium",
    ),
    Case(
        "sql: all fields of a struct that was built",
        sql="select s.* from (select struct(note as n, amount as a) s from {orders})",
        columns={"n": ["orders.note"], "a": ["orders.amount"]},
    ),
    Case(
        "sql: all fields of a column",
        sql="select order_id, address.* from {orders}",
        columns={
            "order_id": ["orders.order_id"],
            "street": ["orders.address transformation"],
            "city": ["orders.address transformation"],
        },
        sql_differs="fields of columns are not known",
    ),
    Case(
        "sql: star except a field",
        sql="select * except (order_id, customer_id, amount, day, status, note, tags, attrs, "
        "address.city) from {orders}",
        columns={"address": ["orders.address transformation"]},
    ),
    # -- arrays -------------------------------------------------------------------------
    Case(
        "sql: items of an array that was built",
        sql="select array(note, status)[0] a, element_at(array(note, status), 2) b, "
        "array(note, status)[cast(order_id as int)] c from {orders}",
        columns={
            "a": ["orders.note"],
            "b": ["orders.status"],
            "c": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.order_id conditional",
            ],
        },
    ),
    Case(
        "sql: transform of collected structs",
        sql=(
            "select customer_id, transform(collect_list(struct(note, amount)), x -> x.note) n "
            "from {orders} group by customer_id"
        ),
        columns={
            "customer_id": ["orders.customer_id"],
            "n": ["orders.note aggregation"],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "filter and aggregate of collected structs",
        frame=lambda x: (
            x.orders.groupBy("customer_id")
            .agg(x.F.collect_list(x.F.struct("note", "amount", "status")).alias("l"))
            .select(
                x.F.transform(x.F.filter("l", lambda e: e.amount > 1), lambda e: e.note).alias(
                    "large"
                ),
                x.F.aggregate("l", x.F.lit(0.0), lambda a, e: a + e.amount).alias("sum"),
                x.F.exists("l", lambda e: e.status == "x").alias("any"),
                x.F.col("l.note").alias("notes"),
                x.F.size("l").alias("n"),
            )
        ),
        columns={
            "large": ["orders.note aggregation", "orders.amount conditional"],
            "sum": ["orders.amount aggregation"],
            "any": ["orders.status aggregation"],
            "notes": ["orders.note aggregation"],
            "n": [],
        },
        influences=["orders.customer_id group_by"],
    ),
    Case(
        "sorted and zipped arrays of structs",
        frame=lambda x: (
            x.orders.groupBy("customer_id")
            .agg(x.F.collect_list(x.F.struct("amount", "note")).alias("l"))
            .select(
                x.F.sort_array("l")[0].note.alias("first"),
                x.F.transform(
                    x.F.arrays_zip("l", x.F.col("l.amount")), lambda e: e["amount"]
                ).alias("amounts"),
            )
        ),
        columns={
            "first": [
                "orders.note aggregation",
                "orders.amount sort",
                "orders.note sort",
            ],
            "amounts": ["orders.amount aggregation"],
        },
        influences=["orders.customer_id group_by"],
    ),
    # -- maps ---------------------------------------------------------------------------
    Case(
        "keys and values of a map that was built",
        frame=lambda x: x.orders.select(x.F.create_map("status", "amount").alias("m")).select(
            x.F.map_keys("m").alias("k"),
            x.F.map_values("m").alias("v"),
            x.F.map_keys(x.F.transform_values("m", lambda k, v: v + 1)).alias("same"),
            x.F.col("m")["open"].alias("open"),
        ),
        columns={
            "k": ["orders.status transformation"],
            "v": ["orders.amount transformation"],
            "same": ["orders.status transformation"],
            "open": ["orders.amount", "orders.status conditional"],
        },
    ),
    Case(
        "a map from arrays",
        frame=lambda x: x.orders.select(
            x.F.map_from_arrays(x.F.array("status"), x.F.array("note")).alias("m")
        ).select(x.F.map_keys("m").alias("k"), x.F.map_values("m").alias("v")),
        columns={
            "k": ["orders.status transformation"],
            "v": ["orders.note transformation"],
        },
    ),
    Case(
        "sql: values of literal keys",
        sql="select map('a', note, 'b', status)['b'] b, map_keys(map('a', note)) k from {orders}",
        columns={"b": ["orders.status"], "k": []},
    ),
    # -- generators ---------------------------------------------------------------------
    Case(
        "sql: explode decides which rows there are",
        sql="select order_id, explode(tags) tag from {orders}",
        columns={"order_id": ["orders.order_id"], "tag": ["orders.tags transformation"]},
        influences=["orders.tags filter"],
    ),
    Case(
        "sql: posexplode_outer decides how many rows there are",
        sql="select order_id, p from {orders} lateral view posexplode_outer(tags) t as p, tag",
        columns={"order_id": ["orders.order_id"], "p": ["orders.tags transformation"]},
        influences=["orders.tags filter"],
    ),
    Case(
        "sql: lateral function",
        sql="select order_id, e.tag from {orders}, lateral explode(tags) as e(tag)",
        columns={"order_id": ["orders.order_id"], "tag": ["orders.tags transformation"]},
        influences=["orders.tags filter"],
    ),
    Case(
        "sql: explode of an array of structs",
        sql=(
            "select e.n, e.k from (select explode(array(struct(note as n, 'note' as k), "
            "struct(status as n, 'status' as k))) e from {orders})"
        ),
        columns={"n": ["orders.note", "orders.status"], "k": []},
    ),
    Case(
        "sql: inline",
        sql="select inline(array(struct(note as n, amount as a))) from {orders}",
        columns={"n": ["orders.note"], "a": ["orders.amount"]},
    ),
    Case(
        "sql: stack",
        sql="select order_id, stack(2, 'note', note, 'status', status) as (k, v) from {orders}",
        columns={
            "order_id": ["orders.order_id"],
            "k": [],
            "v": ["orders.note", "orders.status"],
        },
    ),
    Case(
        "sql: explode of a map that was built",
        sql="select explode(map(status, amount)) as (k, v) from {orders}",
        columns={"k": ["orders.status"], "v": ["orders.amount"]},
    ),
    Case(
        "sql: json_tuple",
        sql="select order_id, json_tuple(note, 'a', 'b') as (a, b) from {orders}",
        columns={
            "order_id": ["orders.order_id"],
            "a": ["orders.note transformation"],
            "b": ["orders.note transformation"],
        },
    ),
    Case(
        "python udtf",
        frame=_python_udtf,
        columns={"order_id": ["orders.order_id"], "copy": ["orders.note transformation"]},
        influences=["orders.note filter"],
        confidence="high medium",
    ),
    Case(
        "python udtf of a table",
        frame=_python_udtf_of_a_table,
        columns={"copy": ["orders.note transformation", "orders.amount transformation"]},
        influences=["orders.note filter", "orders.amount filter"],
        confidence="medium",
    ),
    Case(
        "sql: unpivot of several columns",
        sql=(
            "select * from (select id, name, email, region, referrer from {customers}) "
            "unpivot include nulls ((a, b) for w in ((name, id) as x, (email, referrer) as y))"
        ),
        columns={
            "region": ["customers.region"],
            "w": [],
            "a": ["customers.name", "customers.email"],
            "b": ["customers.id", "customers.referrer"],
        },
    ),
    # -- recursive queries --------------------------------------------------------------
    Case(
        "sql: recursive with a column list",
        sql=(
            "with recursive t(n, m) as (select note, 1 from {orders} "
            "union all select n, m + 1 from t where m < 3) select n, m from t"
        ),
        columns={"n": ["orders.note"], "m": []},
    ),
    Case(
        "sql: recursive cycle of three columns",
        sql=CYCLE_OF_3,
        columns={"a": ["orders.note", "orders.status", "orders.day transformation"]},
    ),
    Case(
        "sql: recursive cycle of four columns",
        sql=CYCLE_OF_4,
        columns={
            "a": [
                "orders.note",
                "orders.status",
                "orders.day transformation",
                "orders.order_id transformation",
            ]
        },
    ),
    # -- conditions ---------------------------------------------------------------------
    Case(
        "sixty nested conditions",
        frame=_whens(60),
        columns={
            "label": [
                "orders.note transformation",
                "orders.status transformation",
                "orders.amount conditional",
            ],
            "day": ["orders.day"],
        },
        influences=["orders.day filter"],
    ),
    Case(
        "nested conditions in aggregates and filters",
        frame=_whens_everywhere,
        columns={
            "m": [
                "orders.note aggregation",
                "orders.status aggregation",
                "orders.amount conditional",
            ],
            "name": ["customers.name"],
        },
        influences=[
            "orders.customer_id group_by",
            "orders.customer_id join",
            "customers.id join",
            "orders.note filter",
            "orders.status filter",
            "orders.amount filter",
        ],
    ),
    # -- names and aggregates that only the text gets wrong -----------------------------
    Case(
        "sql: identifier",
        sql="select identifier('note') n from {orders}",
        columns={"n": ["orders.note"]},
    ),
    Case(
        "sql: joins in brackets",
        sql=(
            "select a.order_id, b.name, c.email from {orders} a join "
            "({customers} b join {customers} c on b.referrer = c.id) on a.customer_id = b.id"
        ),
        columns={
            "order_id": ["orders.order_id"],
            "name": ["customers.name"],
            "email": ["customers.email"],
        },
        influences=["customers.referrer join", "customers.id join", "orders.customer_id join"],
    ),
    Case(
        "sql: listagg in an order",
        sql="select listagg(note, ',') within group (order by amount) l from {orders}",
        columns={"l": ["orders.note aggregation", "orders.amount sort"]},
    ),
    Case(
        "sql: percentile and mode within a group",
        sql=(
            "select percentile_cont(0.5) within group (order by amount) p, "
            "mode() within group (order by status) m from {orders}"
        ),
        columns={"p": ["orders.amount aggregation"], "m": ["orders.status aggregation"]},
    ),
    Case(
        "sql: like any",
        sql="select note like any ('%a%', '%b%') l from {orders}",
        columns={"l": ["orders.note transformation"]},
    ),
)
