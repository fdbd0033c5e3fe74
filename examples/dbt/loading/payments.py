"""What dbt reads: `raw.raw_payments`, a table that the dbt project names too.

`servo lineage import-dbt` brings the models of `target/manifest.json` into the catalog. Since both
know this table by the same name, lineage goes from here through dbt to its last model:
`servo lineage impact raw.raw_payments.cents`.
"""

from __future__ import annotations

import pyarrow as pa

from servo import accepted_values, asset, column, in_range, unique

NAMESPACE = "raw"


@asset(
    owners=["you@example.com"],
    columns=[
        column("id", "int", nullable=False),
        column("order_id", "int"),
        column("method", "string"),
        column("cents", "int", description="In hundredths of a euro."),
    ],
    checks=[unique("id"), in_range("cents", min=0), accepted_values("method", ["card", "cash"])],
)
def raw_payments() -> pa.Table:
    """Payments, as the bank sent them. Replace this with a call of your own source."""
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "order_id": pa.array([11, 12, 12], pa.int32()),
            "method": ["card", "cash", "card"],
            "cents": pa.array([1250, 399, 4900], pa.int32()),
        }
    )
