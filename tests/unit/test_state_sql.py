"""SQL over snapshots: what a query sees, and what it cannot do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from arco.app import Workspace
from arco.catalog.events import Column
from arco.catalog.tables import NAMESPACES
from arco.errors import Corrupt, Invalid, Unavailable
from arco.log.manifest import ColumnSpec
from arco.state.snapshot import Generation
from arco.state.sql import IDLE_PROCESSES, SqlEngine, SqlLimits
from arco.state.sqlprocess import SqlProcess, SqlQuery


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return make(tmp_path)


def make(folder: Path) -> Workspace:
    workspace = Workspace.open(str(folder / "store"), "acme", "test")
    workspace.commands.catalog.create_namespace("sales", owners=["ana"])
    for name in ("orders", "items"):
        columns = [Column(name="id", type="bigint"), Column(name="at", type="date")]
        workspace.commands.catalog.create_asset(
            f"sales.{name}", columns=columns, tags={"tier": "gold"}
        )
    return workspace


@pytest.fixture
def engine(workspace: Workspace) -> Iterator[SqlEngine]:
    with workspace.read.sql() as engine:
        yield engine


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One that no test changes."""
    return make(tmp_path_factory.mktemp("settled"))


@pytest.fixture(scope="module")
def asked(settled: Workspace) -> Iterator[SqlEngine]:
    """An engine, and so a process, for many queries: to start one takes longer than to ask."""
    with settled.read.sql() as engine:
        yield engine


def ask(workspace: Workspace, engine: SqlEngine, sql: str, at: int | None = None) -> list[object]:
    snapshot = workspace.read.snapshot(None if at is None else Generation(at))
    return [tuple(row.values()) for row in engine.query(snapshot, sql).table.to_pylist()]


def test_a_table_is_there_by_its_name_with_its_rows(settled: Workspace, asked: SqlEngine) -> None:
    found = ask(settled, asked, "SELECT namespace, name FROM catalog.assets ORDER BY name")
    assert found == [("sales", "items"), ("sales", "orders")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM catalog.assets JOIN catalog.columns USING (asset_id)", [(4,)]),
        ("SELECT count(*) FROM catalog.assets a, log.outcomes o WHERE a.name = 'items'", [(3,)]),
        ("WITH a AS (SELECT * FROM catalog.assets) SELECT count(*) FROM a", [(2,)]),
        ('SELECT count(*) FROM "catalog"."assets"', [(2,)]),
        ("SELECT count(*) FROM Catalog.ASSETS", [(2,)]),
        ("FROM catalog.assets SELECT count(*)", [(2,)]),
        ("SELECT (SELECT count(*) FROM catalog.columns)", [(4,)]),
        ("SELECT tags['tier'] FROM catalog.assets LIMIT 1", [("gold",)]),
        ("SELECT owners[1] FROM catalog.namespaces", [("ana",)]),
        ("SELECT 1 UNION ALL SELECT assets FROM catalog.namespaces ORDER BY 1", [(1,), (2,)]),
        ("SELECT count(*) FROM catalog.asset_stats", [(0,)]),
    ],
)
def test_every_way_to_name_a_table_finds_its_rows(
    settled: Workspace, asked: SqlEngine, sql: str, expected: list[object]
) -> None:
    assert ask(settled, asked, sql) == expected


def test_a_query_sees_the_generation_it_was_given(workspace: Workspace, engine: SqlEngine) -> None:
    before = workspace.read.snapshot().generation
    workspace.commands.catalog.rename_asset("sales.orders", "orders_raw")
    workspace.commands.catalog.drop_asset("sales.items")
    names = "SELECT name FROM catalog.assets ORDER BY name"
    assert ask(workspace, engine, names, before) == [("items",), ("orders",)]
    assert ask(workspace, engine, names) == [("orders_raw",)]


def test_rows_are_the_same_before_and_after_a_merge(
    workspace: Workspace, engine: SqlEngine
) -> None:
    workspace.commands.catalog.drop_asset("sales.items")
    sql = "SELECT * FROM catalog.columns ORDER BY ALL"
    before = ask(workspace, engine, sql)
    workspace.upkeep.merger.merge(everything=True)
    assert ask(workspace, engine, sql) == before
    workspace.commands.catalog.add_column("sales.orders", Column(name="total", type="double"))
    assert len(ask(workspace, engine, sql)) == len(before) + 1


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE catalog.assets",
        "INSERT INTO catalog.assets VALUES (1)",
        "UPDATE catalog.assets SET name = 'x'",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x.db'",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "",
        "SELEC 1",
        "SELECT * FROM catalog.nope",
        "SELECT nope FROM catalog.assets",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM glob('/*')",
    ],
)
def test_anything_but_one_select_over_the_snapshot_is_refused(
    settled: Workspace, asked: SqlEngine, sql: str
) -> None:
    with pytest.raises(Invalid):
        ask(settled, asked, sql)


def test_an_unknown_table_is_answered_with_those_there_are(
    settled: Workspace, asked: SqlEngine
) -> None:
    with pytest.raises(Invalid) as raised:
        ask(settled, asked, "SELECT * FROM catalog.asset")
    assert "catalog.assets" in raised.value.hint


def test_rows_past_the_limit_are_cut_and_said_to_be(settled: Workspace, asked: SqlEngine) -> None:
    snapshot = settled.read.snapshot()
    cut = asked.query(snapshot, "SELECT * FROM range(5000)", SqlLimits(rows=7))
    whole = asked.query(snapshot, "SELECT * FROM range(7)", SqlLimits(rows=7))
    assert (cut.table.num_rows, cut.truncated) == (7, True)
    assert (whole.table.num_rows, whole.truncated) == (7, False)


def test_a_query_that_takes_too_long_is_ended(settled: Workspace, asked: SqlEngine) -> None:
    sql = "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range % 7 = b.range"
    with pytest.raises(Unavailable, match="longer than"):
        asked.query(settled.read.snapshot(), sql, SqlLimits(timeout_s=0.2))


def test_a_damaged_file_is_an_error_that_names_it(
    workspace: Workspace, engine: SqlEngine, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "store/acme/test/state/changes").glob("*1-*.parquet")
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)
    with pytest.raises(Corrupt, match=file.name):
        ask(workspace, engine, "SELECT * FROM catalog.namespaces")


def test_a_column_that_older_files_lack_is_null_there(
    workspace: Workspace, engine: SqlEngine
) -> None:
    workspace.upkeep.merger.merge(everything=True)
    snapshot = workspace.read.snapshot()
    table = snapshot.contents.table("catalog.namespaces", NAMESPACES.manifest())
    table.columns = (*table.columns, ColumnSpec("cost", "double"))
    found = engine.query(snapshot, "SELECT namespace, cost FROM catalog.namespaces").table
    assert found.to_pylist() == [{"namespace": "sales", "cost": None}]


def test_a_missing_file_is_an_error_that_names_it(
    workspace: Workspace, engine: SqlEngine, tmp_path: Path
) -> None:
    (file,) = (tmp_path / "store/acme/test/state/changes").glob("*1-*.parquet")
    file.unlink()
    with pytest.raises(Corrupt, match=file.name):
        ask(workspace, engine, "SELECT * FROM catalog.namespaces")


# Bounds: whatever a query does, it ends


MANY = ",".join(map(str, range(500_000)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT levenshtein(repeat('ab', 60000), repeat('ba', 60000))",
        "SELECT count(*) FROM range(1000000000) a, range(1000) b WHERE a.range % 7 = b.range",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
        f"SELECT 1 WHERE 5 IN ({MANY})",
        "SELECT " + ", ".join(f"1 AS c{n}" for n in range(50_000)),
    ],
    ids=["one call", "a join", "a recursion", "the parser", "the planner"],
)
def test_no_query_takes_longer_than_it_may(settled: Workspace, asked: SqlEngine, sql: str) -> None:
    with pytest.raises(Unavailable, match=r"longer than 0.05 s"):
        asked.query(settled.read.snapshot(), sql, SqlLimits(timeout_s=0.05, memory_mib=4096))
    assert ask(settled, asked, "SELECT count(*) FROM catalog.assets") == [(2,)]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT repeat('x', 4000000000)",
        "SELECT length(range(500000000))",
        "SELECT list_sort(range(200000000))[1]",
        "SELECT damerau_levenshtein(repeat('ab', 60000), repeat('ba', 60000))",
        "SELECT repeat('x', 1000000) FROM range(100000)",
        "SELECT list(range) FROM range(1000000000)",
    ],
)
def test_no_query_has_more_memory_than_it_may(
    settled: Workspace, asked: SqlEngine, sql: str
) -> None:
    limits = SqlLimits(memory_mib=256, rows=100, timeout_s=300)
    with pytest.raises(Invalid, match="more than 256 MiB of memory"):
        asked.query(settled.read.snapshot(), sql, limits)
    assert ask(settled, asked, "SELECT count(*) FROM catalog.assets") == [(2,)]


PEAK = """
import resource, sys
from arco.app import Workspace
from arco.errors import Invalid
from arco.state.sql import SqlLimits
workspace = Workspace.open(sys.argv[1], "acme", "test")
with workspace.read.sql(SqlLimits(memory_mib=256, timeout_s=300)) as engine:
    engine.query(workspace.read.snapshot(), "SELECT 1")
    try:
        engine.query(workspace.read.snapshot(), sys.argv[2])
    except Invalid:
        pass
    else:
        raise SystemExit("it was not refused")
# Not ru_maxrss for this process: it begins with that of the process which started it.
status = dict(line.split(":") for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
print(int(status["VmHWM"].split()[0]) // 1024)
"""


@pytest.mark.parametrize(
    "sql", ["SELECT repeat('x', 1000000) FROM range(100000)", "SELECT repeat('x', 2000000000)"]
)
def test_memory_stays_near_the_limit_in_the_child_and_small_in_the_parent(
    workspace: Workspace, tmp_path: Path, sql: str
) -> None:
    command = [sys.executable, "-c", PEAK, str(tmp_path / "store"), sql]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    child_mib, parent_mib = map(int, done.stdout.split())
    # Python, DuckDB and Arrow have 200 MiB before any query; the rest is between two looks.
    assert child_mib < 256 + 200 + 512
    assert parent_mib < 512


def test_result_that_is_too_large_is_refused(settled: Workspace, asked: SqlEngine) -> None:
    limits = SqlLimits(result_mib=1)
    sql = "SELECT repeat('x', 1000) FROM range(5000)"
    with pytest.raises(Invalid, match="larger than 1 MiB"):
        asked.query(settled.read.snapshot(), sql, limits)
    few = asked.query(settled.read.snapshot(), sql, SqlLimits(result_mib=1, rows=500))
    assert (few.table.num_rows, few.truncated) == (500, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT '\ud800'",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT error('boom')",
        "SELECT CASE WHEN range > 5000 THEN error('boom') ELSE range END FROM range(10000)",
        "SELECT * FROM request",
        "SELECT * FROM duckdb_secrets() WHERE 1 / 0 = read_blob('/etc/passwd')",
        "\0",
    ],
    ids=["surrogate", "depth", "error", "late error", "Python variable", "secrets", "nul"],
)
def test_every_error_of_a_query_is_one_of_ours(
    settled: Workspace, asked: SqlEngine, sql: str
) -> None:
    with pytest.raises(Invalid):
        ask(settled, asked, sql)


def test_process_that_is_killed_is_an_error_and_the_next_query_has_another(
    workspace: Workspace, engine: SqlEngine
) -> None:
    assert ask(workspace, engine, "SELECT 1") == [(1,)]
    (process,) = engine.idle
    os.kill(process.child.pid, signal.SIGKILL)
    process.child.wait()
    assert ask(workspace, engine, "SELECT 2") == [(2,)]


def test_crash_in_the_middle_of_a_query_is_an_error_of_ours(
    workspace: Workspace, engine: SqlEngine
) -> None:
    ask(workspace, engine, "SELECT 1")
    (process,) = engine.idle

    def kill() -> None:
        while process in engine.idle:
            time.sleep(0.01)
        time.sleep(0.2)  # the query, which never ends, has reached it
        os.kill(process.child.pid, signal.SIGSEGV)

    threading.Thread(target=kill, daemon=True).start()
    with pytest.raises(Invalid, match="SIGSEGV"):
        ask(
            workspace,
            engine,
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
        )


def test_process_is_used_again_and_keeps_nothing(workspace: Workspace, engine: SqlEngine) -> None:
    ask(workspace, engine, "SELECT count(*) FROM catalog.assets")
    (process,) = engine.idle
    with pytest.raises(Invalid):
        ask(workspace, engine, "SELECT * FROM duckdb_views() WHERE view_name = nope")
    assert ask(workspace, engine, "SELECT count(*) FROM duckdb_views() WHERE NOT internal") == [
        (0,)
    ]
    assert engine.idle == [process]


def test_process_that_runs_queries_has_no_credentials(
    workspace: Workspace, engine: SqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    ask(workspace, engine, "SELECT 1")
    (process,) = engine.idle
    environment = Path(f"/proc/{process.child.pid}/environ").read_bytes()
    command = Path(f"/proc/{process.child.pid}/cmdline").read_bytes()
    assert b"planted" not in environment + command and b"AWS" not in environment
    opened = [os.readlink(f) for f in Path(f"/proc/{process.child.pid}/fd").iterdir()]  # noqa: PTH115
    assert [name for name in opened if not name.startswith(("pipe:", "/dev/null"))] == []


def test_process_ends_with_its_parent(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from arco.state.sqlprocess import SqlProcess\n"
        "process = SqlProcess()\n"
        "process.start()\n"
        "print(process.child.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    child = int(done.stdout)
    for _ in range(600):
        if not Path(f"/proc/{child}").exists() or _is_zombie(child):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {child} is still there")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_queries_at_once_have_a_process_each(workspace: Workspace, engine: SqlEngine) -> None:
    with ThreadPoolExecutor(3) as pool:
        sums = list(pool.map(lambda n: ask(workspace, engine, f"SELECT {n} + 1"), range(6)))
    assert sums == [[(n + 1,)] for n in range(6)]
    assert 1 <= len(engine.idle) <= IDLE_PROCESSES


def test_processes_beyond_the_first_idle_ones_are_ended(engine: SqlEngine) -> None:
    with contextlib.ExitStack() as stack:
        used = [stack.enter_context(engine.process(SqlLimits())) for _ in range(3)]
    assert len(engine.idle) == IDLE_PROCESSES
    assert {process for process in used if process.alive} == set(engine.idle)


class Hoarder(SqlProcess):
    """A process that keeps what its queries have freed."""

    kept_mib = 0

    def _memory(self) -> int:
        return (200 + self.kept_mib) << 20


def test_memory_of_a_query_is_counted_from_the_start_of_its_process() -> None:
    query, limits = SqlQuery("SELECT 1", []), SqlLimits(memory_mib=256)
    with contextlib.closing(Hoarder()) as process:
        process.run(query, limits)
        process.kept_mib = 250
        process.run(query, limits)
        process.kept_mib = 260
        with pytest.raises(Invalid, match="more than 256 MiB of memory"):
            process.run(query, limits)


def test_process_that_keeps_much_memory_is_not_used_again(workspace: Workspace) -> None:
    process = Hoarder()
    snapshot = workspace.read.snapshot()
    with workspace.read.sql(process=process) as engine:
        engine.query(snapshot, "SELECT 1", SqlLimits(memory_mib=1024))
        process.kept_mib = 300
        engine.query(snapshot, "SELECT 1", SqlLimits(memory_mib=1024))
        assert engine.idle == [process]
        engine.query(snapshot, "SELECT 1", SqlLimits(memory_mib=256))
        assert not process.alive
        assert process not in engine.idle


def test_types_survive_the_way_from_the_process(settled: Workspace, asked: SqlEngine) -> None:
    sql = (
        "SELECT 1::UTINYINT AS a, 'x'::ENUM('x', 'y') AS b, [1, 2] AS c, MAP {'k': 1.5} AS d, "
        "DATE '2026-01-01' AS e, TIMESTAMP '2026-01-01 10:00:00' AS f, {'u': 1, 'v': NULL} AS g, "
        "'ab'::BLOB AS h, NULL AS i, 170141183460469231731687303715884105727::HUGEINT AS j"
    )
    expected = duckdb.connect().sql(sql).to_arrow_table()
    assert asked.query(settled.read.snapshot(), sql).table.equals(expected)


def test_files_that_no_query_uses_are_kept_up_to_a_bound(
    workspace: Workspace, engine: SqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT count(*) FROM catalog.namespaces"
    for number in range(3):
        workspace.commands.catalog.create_namespace(f"more{number}")
        ask(workspace, engine, sql)
    folder = Path(engine.folder.name)
    before = {file.name for file in folder.glob("*.parquet")}
    monkeypatch.setattr("arco.state.sql.KEPT_BYTES", 1)
    expected = ask(workspace, engine, sql)
    assert before and list(folder.glob("*.parquet")) == []
    assert ask(workspace, engine, sql) == expected
