"""Joins, unions and set operations of frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.golden.lineage.case import Case

KEYS = ["orders.customer_id join", "customers.id join"]


def _joined(x: Any, how: str) -> Any:
    return x.orders.join(x.customers, x.orders.customer_id == x.customers.id, how)


def _both(how: str) -> Callable[[Any], Any]:
    return lambda x: _joined(x, how).select("order_id", "name")


def _left(how: str) -> Callable[[Any], Any]:
    return lambda x: _joined(x, how).select("order_id")


CASES = (
    *(
        Case(
            f"{how} join",
            frame=_both(how),
            columns={"order_id": ["orders.order_id"], "name": ["customers.name"]},
            influences=KEYS,
        )
        for how in ("inner", "left", "right", "full")
    ),
    *(
        Case(
            f"{how} join",
            frame=_left(how),
            columns={"order_id": ["orders.order_id"]},
            influences=KEYS,
        )
        for how in ("left_semi", "left_anti")
    ),
    Case(
        "cross join",
        frame=lambda x: x.orders.crossJoin(x.customers).select("order_id", "name"),
        columns={"order_id": ["orders.order_id"], "name": ["customers.name"]},
    ),
    Case(
        "full join on a name gives either",
        frame=lambda x: x.orders.select("customer_id", "amount").join(
            x.customers.select(x.F.col("id").alias("customer_id"), "name"), "customer_id", "full"
        ),
        columns={
            "customer_id": ["orders.customer_id transformation", "customers.id transformation"],
            "amount": ["orders.amount"],
            "name": ["customers.name"],
        },
        influences=KEYS,
    ),
    Case(
        "join on an expression and a range",
        frame=lambda x: x.orders.join(
            x.customers,
            (x.F.lower(x.orders.note) == x.F.lower(x.customers.email))
            & (x.orders.amount > x.customers.referrer),
        ).select("order_id"),
        columns={"order_id": ["orders.order_id"]},
        influences=[
            "orders.note join",
            "customers.email join",
            "orders.amount join",
            "customers.referrer join",
        ],
    ),
    Case(
        "self join on a name",
        frame=lambda x: x.orders.join(
            x.orders.groupBy("customer_id").agg(x.F.max("day").alias("last")), "customer_id"
        ).select("order_id", "last"),
        columns={"order_id": ["orders.order_id"], "last": ["orders.day aggregation"]},
        influences=["orders.customer_id join", "orders.customer_id group_by"],
    ),
    Case(
        "self join of aliases",
        frame=lambda x: (
            x.customers.alias("c")
            .join(x.customers.alias("r"), x.F.col("c.referrer") == x.F.col("r.id"))
            .select(x.F.col("c.name"), x.F.col("r.name").alias("by"), x.F.col("r.email"))
        ),
        columns={
            "name": ["customers.name"],
            "by": ["customers.name"],
            "email": ["customers.email"],
        },
        influences=["customers.referrer join", "customers.id join"],
    ),
    Case(
        "union goes by position",
        frame=lambda x: x.orders.select("order_id", "note").union(
            x.customers.select("id", "email")
        ),
        columns={
            "order_id": ["orders.order_id", "customers.id"],
            "note": ["orders.note", "customers.email"],
        },
    ),
    Case(
        "union by name",
        frame=lambda x: x.orders.select("order_id", "note").unionByName(
            x.customers.select(x.F.col("email").alias("note"), x.F.col("id").alias("order_id"))
        ),
        columns={
            "order_id": ["orders.order_id", "customers.id"],
            "note": ["orders.note", "customers.email"],
        },
    ),
    Case(
        "union of a frame with what was made of it",
        frame=lambda x: x.orders.select("order_id").union(
            x.orders.select("order_id").union(x.customers.select("id"))
        ),
        columns={"order_id": ["orders.order_id", "customers.id"]},
    ),
    Case(
        "a union does not reach into its first part",
        frame=lambda x: (
            lambda a: a.union(x.customers.select("id")).join(
                a.withColumnRenamed("order_id", "other"), x.F.lit(True)
            )
        )(x.orders.select("order_id")),
        columns={
            "order_id": ["orders.order_id", "customers.id"],
            "other": ["orders.order_id"],
        },
    ),
    Case(
        "intersect",
        frame=lambda x: x.orders.select("customer_id").intersect(x.customers.select("id")),
        columns={"customer_id": ["orders.customer_id"]},
        influences=KEYS,
    ),
    Case(
        "except",
        frame=lambda x: x.orders.select("customer_id").exceptAll(x.customers.select("id")),
        columns={"customer_id": ["orders.customer_id"]},
        influences=KEYS,
    ),
)
