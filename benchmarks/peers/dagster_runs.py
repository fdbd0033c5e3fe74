"""Dagster's run storage with many runs: SQLite, as an instance has it by default.

    .peers/dagster-webserver/bin/python benchmarks/peers/dagster_runs.py HOME RUNS

Writes rows of runs into the tables of its own storage, as its own code serializes them, in bulk.
`dagster-webserver` is started by who measures.
"""

from __future__ import annotations

import os
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

FLOW = """
import dagster as dg

@dg.asset
def root() -> None: ...

defs = dg.Definitions(assets=[root])
"""


def main() -> None:
    home, runs = Path(sys.argv[1]), int(sys.argv[2])
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    (home / "flow.py").write_text(FLOW)
    from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
    from dagster._core.storage.runs.schema import RunsTable, RunTagsTable
    from dagster._serdes import serialize_value
    from sqlalchemy import insert

    now = datetime.now(UTC).replace(tzinfo=None)
    step = timedelta(days=100) / runs
    with DagsterInstance.get() as instance, instance.run_storage.connect() as connection:
        for start in range(0, runs, 5_000):
            rows, tags = [], []
            for number in range(start, min(start + 5_000, runs)):
                at = now - step * (runs - number)
                run = DagsterRun(
                    job_name="__ASSET_JOB",
                    run_id=str(uuid.uuid4()),
                    status=DagsterRunStatus.SUCCESS,
                    tags={"dagster/from_ui": "true"},
                )
                rows.append(
                    {
                        "run_id": run.run_id,
                        "snapshot_id": None,
                        "pipeline_name": run.job_name,
                        "status": run.status.value,
                        "run_body": serialize_value(run),
                        "create_timestamp": at,
                        "update_timestamp": at + timedelta(seconds=5),
                        "start_time": at.timestamp(),
                        "end_time": at.timestamp() + 5,
                    }
                )
                tags.append({"run_id": run.run_id, "key": "dagster/from_ui", "value": "true"})
            connection.execute(insert(RunsTable), rows)
            connection.execute(insert(RunTagsTable), tags)


if __name__ == "__main__":
    os.environ.setdefault("DAGSTER_HOME", sys.argv[1])
    main()
