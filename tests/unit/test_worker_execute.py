"""One envelope from end to end: what is called, committed, reported and left undone."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from arco.clock import SystemClock
from arco.errors import Denied, Unavailable
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.transport.task_envelope import EnvelopeKey, EnvelopeSigner
from arco.worker.artifact import ArtifactCache
from arco.worker.commit import committed
from arco.worker.execute import Executor
from arco.worker.stopping import CANCEL, TIME_OUT
from servo.contract.manifest import SecretRef
from servo.contract.task import (
    CodeRef,
    ColumnSource,
    InputRef,
    MaterializationRef,
    OutputCommit,
    TaskResult,
)
from tests.kit.bench import Bench, NoControl, Switch, problem, version, worker_core
from tests.kit.depth import seeds
from tests.kit.faulty import FaultyStore


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


# -- success ------------------------------------------------------------------------------


def test_a_silent_task_writes_its_marker_and_nothing_else(bench: Bench) -> None:
    bench.deploy("@asset\ndef f() -> None: pass")
    result = bench.run()
    made = version(result)
    assert result.outcome == "succeeded" and not result.adopted and result.worker_id == "w1"
    assert bench.objects("data/") == []
    assert bench.objects("commits/") == ["commits/r1/t1.json"]
    assert bench.objects("logs/") == []
    assert committed(bench.store, bench.request()) == OutputCommit(materialization=made)
    assert (made.rows, made.files, made.fingerprint) == (0, (), "fp")


def test_data_of_a_function_that_says_it_returns_nothing_is_kept_with_a_warning(
    bench: Bench,
) -> None:
    bench.deploy("@asset\ndef f() -> None: return pa.table({'x': [1]})")
    output = bench.run().materialization
    assert output is not None and output.rows == 1
    assert "is annotated with `-> None` and returned data: it is kept" in bench.log()


def test_a_table_is_written_and_described(bench: Bench) -> None:
    bench.deploy("""
        @asset
        def f(ctx: AssetContext):
            ctx.report_progress(50, "half")
            return ctx.output(pa.table({"x": [1, None, 3]}), note="n", ratio=0.5)
    """)
    control = Switch()
    made = version(bench.run(control=control))
    assert (made.rows, made.files) == (3, ("part-00000.parquet",))
    assert made.path == f"data/sales/f/_/{made.materialization_id}"
    assert made.metadata == {"note": "n", "ratio": "0.5"}
    assert control.reports == [(50, "half")]
    assert bench.run().usage.bytes_written == made.bytes > 0


def test_inputs_context_config_and_partition_reach_the_function(bench: Bench) -> None:
    bench.deploy("""
        @asset
        def up(): return pa.table({"x": [1, 2]})
        @asset
        def f(orders: AssetIn["sales.up"], ctx: AssetContext):
            total = sum(orders.arrow()["x"].to_pylist()) * ctx.config["times"]
            assert ctx.partition_value("region") == "eu" and orders.paths
            return AssetOut(pa.table({"total": [total]}), {"attempt": ctx.attempt})
    """)
    up = version(bench.run("up", task_id="t0"))
    ref = MaterializationRef(partition="", materialization_id=up.materialization_id, path=up.path)
    inputs = (
        InputRef(asset="sales.up", parameter="orders", materializations=(ref,)),
        InputRef(asset="sales.first"),
    )
    result = bench.run(inputs=inputs, config={"times": 10}, partition="region=s:eu")
    made = version(result)
    assert (made.schema[0].min, made.metadata, made.partition) == (
        "30",
        {"attempt": 1},
        "region=s:eu",
    )
    assert result.usage.bytes_read == up.bytes


def test_a_lazy_frame_is_collected_and_its_plan_says_where_columns_come_from(
    bench: Bench,
) -> None:
    bench.deploy("""
        @asset
        def up(): return pa.table({"id": [1, 2, 3], "amount": [10, 20, 30], "note": ["a"] * 3})
        @asset
        def f(orders: AssetIn["sales.up"]):
            import polars as pl
            kept = orders.lazy().filter(pl.col("id") > 1)
            return kept.select("id", total=pl.col("amount") * 2)
    """)
    up = version(bench.run("up", task_id="t0"))
    ref = MaterializationRef(partition="", materialization_id=up.materialization_id, path=up.path)
    read = InputRef(asset="sales.up", parameter="orders", materializations=(ref,))
    result = bench.run(inputs=(read,))
    assert version(result).rows == 2
    lineage = result.lineage
    assert lineage is not None
    assert (lineage.method, lineage.confidence, lineage.coverage_percent) == ("plan", "high", 100)
    assert [(each.column, each.sources) for each in lineage.columns] == [
        ("id", (ColumnSource("sales.up", "id"),)),
        ("total", (ColumnSource("sales.up", "amount", "transformation"),)),
    ]
    assert lineage.influences == (ColumnSource("sales.up", "id", "filter"),)
    assert result.usage.bytes_read > 0


def test_a_generator_of_batches_is_written_as_it_comes(tmp_path: Path) -> None:
    bench = Bench(tmp_path, target_file_bytes=1).deploy("""
        def batches():
            for i in range(3):
                print("batch", i)
                yield pa.table({"i": [i]})
        @asset
        def f(): return batches()
    """)
    made = version(bench.run())
    assert made.rows == 3
    assert "batch 2" in bench.log()


def test_a_function_that_yields_writes_tables_frames_and_rows_as_they_come(tmp_path: Path) -> None:
    bench = Bench(tmp_path, target_file_bytes=1).deploy("""
        import pandas as pd
        @asset
        def f(ctx: AssetContext):
            yield {"i": 0, "s": "a"}
            yield {"i": 1}
            print("rows")
            yield pa.record_batch({"i": [2], "s": ["b"]})
            yield pd.DataFrame({"i": [3], "s": ["c"]})
            yield {"s": "d", "i": 4}
    """)
    made = version(bench.run())
    assert (made.rows, [column.name for column in made.schema]) == (5, ["i", "s"])
    assert [column.nulls for column in made.schema] == [0, 1]
    assert "rows" in bench.log()


def test_many_rows_are_never_held_together(bench: Bench) -> None:
    bench.deploy("""
        import gc
        class Row(dict): pass
        @asset
        def f():
            most = 0
            for number in range(35_000):
                yield Row(n=number)
                if number % 5000 == 4999:
                    most = max(most, sum(type(each) is Row for each in gc.get_objects()))
            print("rows held:", most)
    """)
    assert version(bench.run()).rows == 35_000
    assert int(bench.log().partition("rows held: ")[2].split()[0]) <= 10_001


def test_configured_values_are_python_values_again(bench: Bench) -> None:
    bench.deploy("""
        from datetime import date, datetime
        from decimal import Decimal
        @asset
        def f(ctx: AssetContext):
            assert ctx.config == {
                "rate": 0.1, "price": Decimal("1.50"), "day": date(2025, 1, 31),
                "at": datetime(2025, 1, 31, 6), "codes": ["a", 2.5], "deep": {"x": None},
            }, ctx.config
            ctx.config["rat"]
    """)
    config = {
        "rate": {"$float": "0.1"},
        "price": {"$decimal": "1.50"},
        "day": {"$date": "2025-01-31"},
        "at": {"$datetime": "2025-01-31T06:00:00"},
        "codes": ["a", {"$float": "2.5"}],
        "deep": {"x": None},
    }
    result = bench.run(contract=3, config=config)
    assert result.error is not None
    assert result.error.message == "sales.f has no configuration value 'rat'"
    assert result.error.hint == "did you mean 'rate'?"


def test_a_task_that_was_committed_is_not_run_again(bench: Bench) -> None:
    bench.deploy("""
        runs = []
        @asset
        def f():
            runs.append(1)
            return pa.table({"n": [len(runs)]})
    """)
    first = version(bench.run())
    again = bench.run(redelivery=1)
    later = bench.run(attempt=2)
    # Its claim had ended: nobody says so but the queue.
    delivered = bench.executor.run(bench.request("f"), Switch(), again=True)
    assert delivered.materialization == again.materialization == first
    assert not again.adopted and not delivered.adopted
    assert (later.materialization, later.adopted) == (first, True)
    assert first.schema[0].max == "1"


def test_of_two_attempts_at_once_one_wins_and_the_other_adopts(tmp_path: Path) -> None:
    shared = Bench(tmp_path).deploy("@asset\ndef f(): return pa.table({'x': [1]})")
    executors = [
        Executor(
            worker_core(shared.plain, f"w{n}", n),
            None,
            ArtifactCache(shared.plain, tmp_path / "cache"),
        )
        for n in range(4)
    ]
    request = shared.request()
    results: list[TaskResult] = []
    barrier = threading.Barrier(4)

    def work(executor: Executor) -> None:
        barrier.wait()
        results.append(executor.run(request, Switch()))

    threads = [threading.Thread(target=work, args=(executor,)) for executor in executors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winner = committed(shared.plain, request)
    assert winner is not None
    assert [result.materialization for result in results] == [winner.materialization] * 4
    assert sorted(result.adopted for result in results) == [False, True, True, True]


# -- failure ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise ValueError('bad')", ("failed", "user_code", "user_code.ValueError")),
        ("raise SystemExit(3)", ("failed", "user_code", "user_code.SystemExit")),
        ("raise KeyboardInterrupt", ("failed", "user_code", "user_code.KeyboardInterrupt")),
        ("raise ConnectionResetError()", ("failed", "transient", "os.connection")),
        ("import nosuchlib", ("failed", "configuration", "import.missing")),
        ("return 42", ("failed", "user_code", "output.type")),
        ("return 'text'", ("failed", "user_code", "output.type")),
        ("return {'x': 1}", ("failed", "user_code", "output.type")),
        ("return [{'x': 1}, {'x': 'a'}]", ("failed", "user_code", "output.type")),
        ("return [{'x': 1}, (2,)]", ("failed", "user_code", "output.type")),
        ("yield 1", ("failed", "user_code", "output.type")),
    ],
)
def test_a_failure_is_a_result(bench: Bench, body: str, expected: tuple[str, str, str]) -> None:
    bench.deploy(f"@asset\ndef f():\n    {body}\n")
    result = bench.run()
    assert problem(result) == expected
    assert bench.objects("data/") == bench.objects("commits/") == []
    assert bench.log().splitlines()[-1].split(maxsplit=1)[1].startswith("END     failed: ")


def test_a_failure_names_the_users_line(bench: Bench) -> None:
    bench.deploy("import tool\n@asset\ndef f(): tool.g()", tool="\ndef g():\n    return 1 / 0\n")
    error = bench.run().error
    assert error is not None
    assert (error.file, error.line, error.exception) == ("tool.py", 3, "ZeroDivisionError")
    assert "src/arco" not in error.traceback and "src/servo" not in error.traceback
    assert str(bench.folder) not in error.traceback
    assert "ERROR   ZeroDivisionError: division by zero" in bench.log()


def test_missing_things_are_matters_of_configuration_or_input(bench: Bench) -> None:
    bench.deploy('@asset\ndef f(up: AssetIn["sales.up"]): return up.arrow()')
    gone = MaterializationRef(partition="", materialization_id="m", path="data/sales/up/_/m")
    inputs = (InputRef(asset="sales.up", parameter="up", materializations=(gone,)),)
    absent = CodeRef(artifact="0" * 64, module="assets", name="f")
    secrets = {"db": SecretRef(provider="env", path="ARCO_NOT_SET")}
    assert problem(bench.run(inputs=inputs)) == ("failed", "input", "input.missing")
    assert problem(bench.run()) == ("failed", "configuration", "code.parameters")
    assert problem(bench.run(code=absent)) == ("failed", "configuration", "artifact.missing")
    assert problem(bench.run(secrets=secrets)) == ("failed", "configuration", "secret.missing")
    assert "env:ARCO_NOT_SET" in bench.log()
    assert problem(bench.run(kind="dream")) == ("failed", "configuration", "code.kind")
    assert problem(bench.run(output="")) == ("failed", "configuration", "envelope.refused")
    assert problem(bench.run(tenant_id="x")) == ("failed", "configuration", "envelope.refused")


def test_an_artifact_with_wrong_bytes_is_reported(bench: Bench) -> None:
    bench.deploy("@asset\ndef f() -> None: pass")
    bench.plain.put(paths.artifact(bench.artifact), b"other", Mode.OVERWRITE)
    assert problem(bench.run()) == ("failed", "configuration", "artifact.invalid")


# -- faulty stores ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(4, 12))
def test_lost_answers_of_the_store_never_make_two_outputs(tmp_path: Path, seed: int) -> None:
    inner = MemoryStore(SystemClock())
    faulty = FaultyStore(inner, random.Random(seed), 0.2, 0.4)
    bench = Bench(tmp_path, faulty)
    bench.deploy("@asset\ndef f(): return pa.table({'x': [1]})")
    seen = set()
    for attempt in range(1, 9):
        result = bench.run_here(attempt=attempt)
        if result.outcome == "succeeded":
            seen.add(version(result).materialization_id)
        else:
            assert problem(result)[1:] == ("transient", "store.unavailable")
    marker = committed(inner, bench.request())
    assert seen == ({marker.materialization.materialization_id} if marker else set())


def test_a_store_that_is_down_is_transient(tmp_path: Path) -> None:
    class Down(MemoryStore):
        def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
            raise Unavailable("down")

    bench = Bench(tmp_path, Down(SystemClock())).deploy("@asset\ndef f() -> None: print('x')")
    assert problem(bench.run_here()) == ("failed", "transient", "store.unavailable")


# -- cancellation and time-outs -----------------------------------------------------------

BUSY = """
    import time
    @asset
    def f():
        print("started", flush=True)
        while True:
            sum(range(100))
    @asset
    def polite(ctx: AssetContext):
        while True:
            ctx.check_cancelled()
    @asset
    def stubborn():
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                while True: pass
            except Exception:
                return pa.table({"x": [1]})
    @asset
    def slow():
        time.sleep(0.4)
        return pa.table({"x": [1]})
"""


def later(seconds: float, act: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()


@pytest.mark.parametrize("name", ["f", "polite", "stubborn", "slow"])
def test_a_cancelled_task_stops_and_commits_nothing(bench: Bench, name: str) -> None:
    control = Switch()
    later(0.15, lambda: setattr(control, "stop", True))
    began = time.monotonic()
    result = bench.deploy(BUSY).run(name, control)
    assert problem(result) == ("cancelled", "cancelled", "cancelled.task")
    assert time.monotonic() - began < 5
    assert bench.objects("data/") == bench.objects("commits/") == []


@pytest.mark.parametrize("name", ["f", "polite"])
def test_a_task_past_its_time_fails_as_timed_out(bench: Bench, name: str) -> None:
    result = bench.deploy(BUSY).run(name, timeout_s=1)
    assert problem(result) == ("failed", "timeout", "timeout.task")
    assert result.error is not None and result.error.retriable and "1 s" in result.error.message
    assert bench.objects("data/") == bench.objects("commits/") == []


@pytest.mark.parametrize(("told", "outcome"), [(TIME_OUT, "failed"), (CANCEL, "cancelled")])
def test_nothing_is_committed_if_it_ends_while_files_are_written(
    tmp_path: Path, told: signal.Signals, outcome: str
) -> None:
    class Telling(MemoryStore):
        def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
            super().put(path, data, mode)
            if path.endswith(".parquet"):
                signal.raise_signal(told)

    bench = Bench(tmp_path, Telling(SystemClock()))
    bench.deploy("@asset\ndef f(): return pa.table({'x': [1]})")
    assert problem(bench.run_here())[0] == outcome
    assert committed(bench.store, bench.request()) is None


def test_a_function_that_returns_too_late_has_timed_out(bench: Bench) -> None:
    bench.deploy("import time\n@asset\ndef f() -> None: time.sleep(1.1)")
    assert problem(bench.run(timeout_s=1)) == ("failed", "timeout", "timeout.task")
    assert bench.objects("data/") == bench.objects("commits/") == []


def test_a_task_cancelled_before_it_began_does_not_begin(bench: Bench) -> None:
    control = Switch()
    control.stop = True
    assert problem(bench.deploy("@asset\ndef f() -> None: print('no')").run(control=control))[
        0
    ] == ("cancelled")
    assert "no\n" not in bench.log()


def test_a_generator_is_interrupted_too(bench: Bench) -> None:
    bench.deploy("""
        def endless():
            yield pa.table({"i": [1]})
            while True: pass
        @asset
        def f(): return endless()
    """)
    assert problem(bench.run(timeout_s=1)) == ("failed", "timeout", "timeout.task")
    assert bench.objects("data/") == bench.objects("commits/") == []


def test_interruptions_never_hit_what_comes_after_the_function(bench: Bench) -> None:
    bench.deploy("""
        import time
        @asset
        def f(ctx: AssetContext) -> None:
            end = time.monotonic() + ctx.config["us"] / 1e6
            while time.monotonic() < end: pass
    """)
    seen = set()
    for number in range(20):
        control = Switch()
        later(0.03, lambda c=control: setattr(c, "stop", True))  # type: ignore[misc]
        config = {"us": 40_000 + number * 1_000}
        result = bench.run(control=control, run_id=f"r{number}", config=config)
        seen.add(result.outcome)
        request = bench.request(run_id=f"r{number}")
        assert (committed(bench.store, request) is not None) == (result.outcome == "succeeded")
    assert seen <= {"succeeded", "cancelled"}


@pytest.mark.parametrize("number", [CANCEL, TIME_OUT])
def test_a_signal_that_comes_after_its_task_ends_no_slot(bench: Bench, number: int) -> None:
    bench.deploy("""
        import os
        @asset
        def f(ctx: AssetContext) -> None:
            print("process", os.getpid(), flush=True)
    """)
    processes = []
    for run in ("r1", "r2"):
        assert bench.run(run_id=run).outcome == "succeeded"
        processes.append(int(bench.log(run).split("process ")[1].split()[0]))
        os.kill(processes[-1], number)
        while re.search(r"ShdPnd:\s*0*[1-9a-f]", Path(f"/proc/{processes[-1]}/status").read_text()):
            time.sleep(0.001)  # it is still to be delivered
    assert processes[0] == processes[1]


# -- output, secrets, envelopes -----------------------------------------------------------


def test_prints_of_tasks_side_by_side_do_not_mix(bench: Bench) -> None:
    bench.deploy("""
        import logging, sys, threading, time
        from concurrent.futures import ThreadPoolExecutor
        pool = ThreadPoolExecutor(2)
        @asset
        def f(ctx: AssetContext) -> None:
            me = ctx.config["me"]
            def inner(): print(f"{me} thread")
            for i in range(20):
                print(f"{me} out", end=" ")
                time.sleep(0.001)
                print(i)
                print(f"{me} err {i}", file=sys.stderr)
            ctx.log.info("%s info", me)
            logging.getLogger("lib").warning(f"{me} warns")
            t = threading.Thread(target=inner); t.start(); t.join()
            pool.submit(print, f"{me} pool").result()
    """)
    threads = [
        threading.Thread(target=lambda n=n: bench.run(run_id=f"r{n}", config={"me": f"task{n}"}))
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n in range(6):
        lines = [line.split(maxsplit=2)[1:] for line in bench.log(f"r{n}").splitlines()]
        assert all(text.startswith((f"task{n} ", "succeeded")) for _, text in lines)
        expected = [["stdout", f"task{n} out {i}"] for i in range(20)]
        expected += [["stderr", f"task{n} err {i}"] for i in range(20)]
        expected += [["INFO", f"task{n} info"], ["WARNING", f"task{n} warns"]]
        expected += [["stdout", f"task{n} thread"], ["stdout", f"task{n} pool"]]
        assert sorted(lines) == sorted([*expected, ["END", "succeeded"]])


def test_a_planted_secret_is_found_nowhere(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCO_TEST_SECRET", "hunter2-é'x")
    bench.deploy("""
        import base64, logging, sys
        @asset
        def f(ctx: AssetContext):
            s = ctx.secret("db")
            print(s, repr(s)); sys.stderr.write(s[:4]); sys.stderr.write(s[4:] + chr(10))
            print(base64.b64encode(f"user:{s}".encode()).decode())
            ctx.log.info("with %s", s); logging.getLogger().warning(s)
            ctx.report_progress(1, f"using {s}")
            if ctx.config["fail"]:
                raise ValueError({"dsn": s})
            return AssetOut(pa.table({"x": [s]}), {"dsn": s, s: 1})
    """)
    secrets = {"db": SecretRef(provider="env", path="ARCO_TEST_SECRET")}
    for fail in (True, False):
        control = Switch()
        result = bench.run(
            control=control, secrets=secrets, config={"fail": fail}, attempt=1 + fail
        )
        assert result.outcome == ("failed" if fail else "succeeded")
        told = msgspec.json.encode(result).decode() + bench.log(attempt=1 + fail)
        told += f"{control.reports}"
        assert "hunter2" not in told and "aHVudGVyM" not in told and "***" in told


def test_only_signed_envelopes_are_opened(tmp_path: Path) -> None:
    signer = EnvelopeSigner([EnvelopeKey("k", b"k" * 32)], SystemClock())
    other = EnvelopeSigner([EnvelopeKey("k", b"x" * 32)], SystemClock())
    bench = Bench(tmp_path, signer=signer).deploy("@asset\ndef f() -> None: pass")
    raw = signer.seal(bench.request(), timedelta(minutes=1))
    assert bench.executor.open(raw) == bench.request()
    with pytest.raises(Denied):
        bench.executor.open(other.seal(bench.request(), timedelta(minutes=1)))


def test_a_new_deployment_runs_beside_the_old_one(bench: Bench) -> None:
    requests = []
    for number in (1, 2):
        bench.deploy(
            "@asset\ndef f():\n    import lib\n    return pa.table({'n': [lib.N]})",
            lib=f"N = {number}",
        )
        requests.append(bench.request(run_id=f"r{number}"))
    found = [version(bench.executor.run(r, NoControl())).schema[0].min for r in requests]
    assert found == ["1", "2"]


# -- secrets in names, and deep types -----------------------------------------------------


@pytest.mark.parametrize(
    "columns",
    [
        'pa.table({"x": [1], f"by {token}": [1]})',
        'pa.table({"x": [1], token.encode().hex(): [1]})',
        'pa.table({"x": [1], "y": [{token: 1}]})',
    ],
)
def test_a_column_with_a_secret_in_its_name_is_refused_and_written_nowhere(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("TOKEN", "tops3cret-value")
    bench.deploy(f"""
        @asset
        def f(ctx: AssetContext):
            token = ctx.secret("token")
            return {columns}
    """)
    result = bench.run(secrets={"token": SecretRef.parse("env:TOKEN")})
    assert problem(result) == ("failed", "user_code", "output.secret")
    assert result.error is not None and "column 2" in result.error.message
    assert bench.objects("data/") == bench.objects("commits/") == []
    told = f"{result} {bench.log()}"
    assert "tops3cret-value" not in told and b"tops3cret-value".hex() not in told


def test_data_that_is_nested_too_deep_is_told_so(bench: Bench) -> None:
    bench.deploy("""
        @asset
        def f():
            type = pa.int64()
            for _ in range(500):
                type = pa.list_(type)
            return pa.table({"x": pa.array([None], type)})
    """)
    result = bench.run()
    assert problem(result) == ("failed", "user_code", "output.columns")
    assert result.error is not None and "nested more than 100 levels" in result.error.message


def test_data_that_is_nested_less_deep_is_written(bench: Bench) -> None:
    bench.deploy("""
        @asset
        def f():
            type = pa.int64()
            for _ in range(90):
                type = pa.list_(type)
            return pa.table({"x": pa.array([None], type)})
    """)
    assert version(bench.run()).rows == 1
