"""A code location of Dagster with many assets, of which one has many partitions.

    .peers/dagster-webserver/bin/python benchmarks/peers/dagster_assets.py HOME ASSETS DAYS SHOPS

Writes the files of an instance; `dagster-webserver` is started by who measures. Nothing is
materialized, so that the webserver has less to read than ours has.
"""

from __future__ import annotations

import sys
from pathlib import Path

FLOW = """
from datetime import date, timedelta

import dagster as dg

days = [str(date(2015, 1, 1) + timedelta(days=day)) for day in range({days})]
shops = [f"s{{number:04}}" for number in range({shops})]
partitions = dg.MultiPartitionsDefinition(
    {{"date": dg.StaticPartitionsDefinition(days), "shop": dg.StaticPartitionsDefinition(shops)}}
)


@dg.asset(key_prefix="shop", partitions_def=partitions)
def visits() -> None: ...


assets = [
    dg.AssetSpec(
        ["area", f"a{{number:05}}"], description="What happened", group_name=f"g{{number % 50}}"
    )
    for number in range({assets})
]
defs = dg.Definitions(assets=[visits, *assets])
"""


def main() -> None:
    home = Path(sys.argv[1])
    assets, days, shops = map(int, sys.argv[2:5])
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n", "utf-8")
    (home / "flow.py").write_text(FLOW.format(assets=assets, days=days, shops=shops), "utf-8")


if __name__ == "__main__":
    main()
