"""Airflow's API with many runs in its database: SQLite, as `airflow standalone` has it.

    .peers/airflow/bin/python benchmarks/peers/airflow_runs.py HOME RUNS

Makes the database with Airflow's own commands, one DAG through its own parser, and the rows of
the runs through its own model, in bulk. `airflow api-server` is started by who measures.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

DAG = """
from airflow.sdk import dag, task
import pendulum

@dag(schedule="@hourly", start_date=pendulum.datetime(2020, 1, 1), catchup=False)
def flow():
    @task
    def root(): ...
    root()

flow()
"""


def main() -> None:
    home, runs = Path(sys.argv[1]), int(sys.argv[2])
    (home / "dags").mkdir()
    (home / "dags" / "flow.py").write_text(DAG)
    command = str(Path(sys.executable).parent / "airflow")
    for arguments in (["db", "migrate"], ["dags", "reserialize"]):
        subprocess.run([command, *arguments], check=True, stdout=subprocess.DEVNULL)
    _fill(runs)


def _fill(runs: int) -> None:
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import insert

    now = datetime.now(UTC)
    step = timedelta(days=100) / runs
    with create_session() as session:
        version = DagVersion.get_latest_version("flow", session=session)
        assert version is not None
        for start in range(0, runs, 5_000):
            rows = []
            for number in range(start, min(start + 5_000, runs)):
                at = now - step * (runs - number)
                rows.append(
                    {
                        "dag_id": "flow",
                        "run_id": f"manual__{at.isoformat()}",
                        "run_type": "manual",
                        "state": "success",
                        "queued_at": at,
                        "logical_date": at,
                        "data_interval_start": at,
                        "data_interval_end": at,
                        "run_after": at,
                        "start_date": at,
                        "end_date": at + timedelta(seconds=5),
                        "triggered_by": "REST_API",
                        "conf": {},
                        "created_dag_version_id": version.id,
                        "span_status": "ended",
                    }
                )
            session.execute(insert(DagRun.__table__), rows)


if __name__ == "__main__":
    os.environ.setdefault("AIRFLOW_HOME", sys.argv[1])
    main()
