"""Tasks with more inputs than travel with them, from the command line."""

from __future__ import annotations

from arco.orchestration.input_refs import INLINE
from arco.orchestration.planning import ASKED
from arco.storage import paths
from tests.e2e.conftest import Servo

COUNT = INLINE + 1
PROJECT = f"""
import pyarrow as pa
from servo import AssetIn, all_upstream, asset, static

NAMESPACE = "city"
KEYS = [f"k{{n:04}}" for n in range({COUNT})]

@asset(partitions=static("key", KEYS))
def source() -> pa.Table:
    return pa.table({{"n": [1]}})

@asset
def total(source: AssetIn["source", all_upstream]) -> pa.Table:
    return pa.table({{"n": [source.arrow().num_rows]}})
"""


def test_what_a_task_read_is_listed_whole_while_its_list_is_there(servo: Servo) -> None:
    (servo.directory / "city.py").write_text(PROJECT)
    ranges = servo.directory / "keys.txt"
    ranges.write_text("".join(f"key=k{n:04}\n" for n in range(COUNT)))
    made = servo.json("run", "city.source", "--deploy", "-p", f"@{ranges}")
    assert (made["state"], made["tasks_succeeded"]) == ("SUCCEEDED", COUNT)
    assert (len(made["partitions"]), made["partitions_total"]) == (ASKED, COUNT)
    assert f"… and {COUNT - ASKED} more" in " ".join(
        servo.text("runs", "show", made["run_id"]).split()
    )

    crew = [
        servo.start("orchestrator", "--interval", "0.2"),
        servo.start("worker", "--slots", "1", "--interval", "0.2"),
    ]
    try:
        assert servo.json("run", "city.total", "--remote")["state"] == "SUCCEEDED"
    finally:
        for process in crew:
            process.terminate()
        for process in crew:
            process.communicate(timeout=60)

    (read,) = servo.json("lineage", "inputs", "city.total")["read"]
    assert read["complete"] and read["rows_read"] == COUNT
    assert [each["partition"] for each in read["inputs"]] == [
        f"key=s:k{n:04}" for n in range(COUNT)
    ]
    assert f"city.source: {COUNT} versions, {COUNT} rows" in servo.text(
        "lineage", "inputs", "city.total", "--limit", "1000"
    )
    assert f"and {COUNT - 3} more" in servo.text("lineage", "show", "city.total")

    store = servo.open().store
    (listed,) = store.list(paths.INPUTS)
    store.delete(listed.path)
    (cut,) = servo.json("lineage", "inputs", "city.total")["read"]
    assert not cut["complete"] and cut["inputs"] == read["inputs"][: len(cut["inputs"])]
    assert "only the first 10 are shown" in servo.text("lineage", "inputs", "city.total")


def test_ranges_from_standard_input_and_from_no_file(servo: Servo) -> None:
    (servo.directory / "city.py").write_text(PROJECT)
    servo.text("deploy")
    planned = servo.text("plan", "city.source", "-p", "@-", stdin="key=k0001\n\nkey=k0002\n")
    assert "2 tasks to run" in planned
    refused = servo.error("plan", "city.source", "-p", "@nowhere.txt", code=2)
    assert "nowhere.txt" in refused["message"]
