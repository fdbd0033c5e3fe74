"""What user code does to its process costs that task alone: others go on, the worker lives.

Each project has attackers and, beside each, innocent tasks; one worker runs all of them, so
that attacker and innocent use the same slots in turn. The same in `servo run`.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from arco.orchestration.states import TaskState
from arco.worker.log_parts import RunLogs
from tests.integration.flow_crew import UNPRIVILEGED, FlowCrew
from tests.kit.backends import Servers
from tests.kit.flows import tasks_of
from tests.kit.secret_servers import VaultServer

pytestmark = pytest.mark.xdist_group("processes")

TIMING = {"interval": 0.1, "heartbeat": 0.5, "zombie-after": 20, "claim": 30}


class Attack(NamedTuple):
    body: str
    code: str
    """Of the error; empty where the task succeeds, and only its process was changed."""
    said: str = ""
    """In the error's message."""
    given: str = ""
    """Of its decorator."""


ATTACKS = {
    "gil": Attack('re.match(r"(a+)+$", "a" * 60 + "b")', "timeout.task", "its 3 s", 'timeout="3s"'),
    "c_loop": Attack("all(itertools.repeat(1))", "timeout.task", "its 1 s", 'timeout="1s"'),
    "deaf": Attack(
        "for n in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}: "
        "signal.signal(n, signal.SIG_IGN)\n    time.sleep(600)",
        "timeout.task",
        "its 1 s",
        'timeout="1s"',
    ),
    "exits": Attack("os._exit(0)", "process.exit", "exit status 0"),
    "sys_exits": Attack("sys.exit(0)", "user_code.SystemExit"),
    "segfault": Attack("ctypes.string_at(0)", "process.crash", "SIGSEGV"),
    "aborts": Attack("os.abort()", "process.crash", "SIGABRT"),
    "memory": Attack(
        'hoard = []\n    while True: hoard.append(b"x" * (16 << 20)); time.sleep(0.002)',
        "memory.limit",
        "its limit is 300 MiB",
        "resources=Resources(memory_mib=300)",
    ),
    "memory_of_child": Attack(
        "subprocess.run([sys.executable, '-c', "
        "'import time; x = bytearray(600 << 20); time.sleep(60)'])",
        "memory.limit",
        "its limit is 300 MiB",
        "resources=Resources(memory_mib=300)",
    ),
    "descriptors": Attack("os.closerange(0, 4096)", "process.descriptors"),
    "forks": Attack("os.fork()", ""),
    "forks_and_stays": Attack(
        'if not os.fork():\n        stay("fork")\n        time.sleep(600)', ""
    ),
    "daemon": Attack(
        "if not os.fork():\n        os.setsid()\n        if not os.fork():\n"
        '            stay("daemon")\n            time.sleep(600)\n        os._exit(0)\n'
        "    os.wait()",
        "",
    ),
    "threads": Attack(
        'threading.Thread(target=lambda: (stay("thread"), time.sleep(600))).start()', ""
    ),
    "surroundings": Attack(
        'os.chdir("/")\n    os.environ["CHANGED"] = "1"\n    os.umask(0)\n'
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        '    sys.stdout = open("/dev/null", "w")',
        "",
    ),
    "output": Attack(
        'line = b"x" * 999 + b"\\n"\n    for _ in range(1 << 10): os.write(1, line * 1024)', ""
    ),
}

HEADER = """
import ctypes, itertools, re, signal, subprocess, sys, threading
from servo import Resources

once = Retry(max_attempts=1)


def stay(name):
    (FOLDER / f"{name}.pid").write_text(str(os.getpid()))


"""


def project(attacks: dict[str, Attack]) -> str:
    text = HEADER
    for number, (name, attack) in enumerate(attacks.items()):
        given = f", {attack.given}" if attack.given else ""
        text += f'@asset(namespace="flow", retry=once{given})\ndef {name}() -> None:\n'
        text += f"    {attack.body}\n\n\n"
        text += f"""@asset(namespace="flow", retry=once)
def innocent{number}() -> None:
    time.sleep(0.1)
    changed = [os.getcwd() == "/", "CHANGED" in os.environ, os.umask(0o022) == 0]
    changed += [signal.getsignal(signal.SIGTERM) == signal.SIG_IGN, threading.active_count() > 1]
    assert not any(changed), changed
    print("unharmed")


"""
    return text


def check(w: Any, run_id: str, attacks: dict[str, Attack]) -> None:
    tasks = tasks_of(w, run_id)
    logs = RunLogs(w.store, run_id)
    for name, attack in attacks.items():
        row = tasks[f"flow.{name}"]
        end = TaskState.FAILED if attack.code else TaskState.SUCCEEDED
        told = (row.state, row.error_code, row.attempt)
        assert told == (end, attack.code, 1), (name, row.error_message)
        assert attack.said in row.error_message, name
        assert bool(row.error_hint) == bool(attack.code) or row.error_category == "timeout", name
    for number in range(len(attacks)):
        row = tasks[f"flow.innocent{number}"]
        assert (row.state, row.attempt) == (TaskState.SUCCEEDED, 1), row.error_message
        [log] = logs.new([row.task_id])
        assert "unharmed" in log.text


def check_gone(folder: Path) -> None:
    """Nothing that a task left behind is there any more."""
    for file in folder.glob("*.pid"):
        pid = int(file.read_text())
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}").exists():
            assert time.monotonic() < deadline, f"{file.stem} is still there"
            time.sleep(0.05)


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[FlowCrew]:
    with FlowCrew(tmp_path, project(ATTACKS)) as made:
        yield made


def test_a_worker_survives_what_its_tasks_do(crew: FlowCrew) -> None:
    crew.start("orchestrator", TIMING)
    worker = crew.start("worker", TIMING, "--slots", "3")
    crew.until(crew.ended, "the end of the run")
    check(crew.open(), crew.run_id, ATTACKS)
    check_gone(crew.folder)
    worker.check_alive()
    assert _peak_kib(worker.pid) < 700 << 10, "a gigabyte of output went through it"
    crew.drop(worker)
    assert worker.terminate() == 0, worker.log.read_text()
    assert "Traceback" not in worker.log.read_text()


def test_servo_run_survives_what_its_tasks_do(crew: FlowCrew) -> None:
    done = servo_run(crew, "*")
    assert done.returncode == 1, done.stderr
    run_id = json.loads(done.stdout)["run_id"]
    check(crew.open(), run_id, ATTACKS)
    check_gone(crew.folder)


def servo_run(crew: FlowCrew, *arguments: str) -> subprocess.CompletedProcess[str]:
    without_rights = (sys.executable, "-c", UNPRIVILEGED) if crew.unprivileged else ()
    servo = (*without_rights, sys.executable, "-m", "arco.cli")
    return subprocess.run(
        [*servo, "run", "--json", "--slots", "3", *arguments],
        cwd=crew.folder,
        env=crew.env,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_a_process_that_ends_the_slot_host_fails_its_task_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    assets = """
@asset(namespace="flow", retry=Retry(max_attempts=2, delay="1s"))
def patricide() -> None:
    if first("patricide"):
        os.kill(os.getppid(), 9)
        time.sleep(60)


@asset(namespace="flow", deps=["flow.patricide"])
def after() -> None: ...
"""
    with FlowCrew(tmp_path, assets) as crew:
        crew.start("orchestrator", TIMING)
        crew.start("worker", TIMING)
        crew.until(crew.ended, "the end of the run")
        tasks = tasks_of(crew.open(), crew.run_id)
        assert {row.asset_key: (row.state, row.attempt) for row in tasks.values()} == {
            "flow.patricide": (TaskState.SUCCEEDED, 2),
            "flow.after": (TaskState.SUCCEEDED, 1),
        }


def test_keys_secrets_and_credentials_reach_only_the_process_that_needs_them(
    tmp_path: Path, servers: Servers
) -> None:
    assets = """
from pathlib import Path

import pyarrow as pa

PRIVATE = ("DB_PASSWORD", "ARCO_TASK_KEYS", "VAULT_TOKEN", "AWS_ACCESS_KEY_ID")
PRIVATE += ("AWS_SECRET_ACCESS_KEY",)


def check_environment() -> None:
    seen = Path("/proc/self/environ").read_text()
    assert not [name for name in PRIVATE if name in os.environ or name in seen]
    assert os.environ["HARMLESS"] == "yes" and "AWS_ENDPOINT" in os.environ
    check_ancestors()


def check_ancestors() -> None:
    # Neither the supervisor nor any other process above this one shows the key.
    refused, pid = [], os.getppid()
    while pid > 1:
        for name in ("environ", "mem"):
            try:
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    assert name == "mem" or b"0123456789abcdef" not in file.read()
            except PermissionError:
                refused.append((pid, name))
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    assert {(worker(), "environ"), (worker(), "mem")} <= set(refused), refused


@asset(
    namespace="flow",
    secrets={"db": "env:DB_PASSWORD", "till": "vault:secret/till?version=1#pin"},
)
def trusted(ctx: AssetContext) -> pa.Table:
    assert ctx.secret("db") == "hunter2-hunter2"
    assert ctx.secret("till") == "4711-4711"
    check_environment()
    return pa.table({"n": [1]})


@asset(namespace="flow")
def other(trusted: AssetIn["flow.trusted"]) -> pa.Table:
    check_environment()
    return trusted.arrow()
"""
    vault = VaultServer()
    vault.secrets["till"] = {1: {"pin": "4711-4711"}}
    bucket = servers.get("s3")
    with vault.running(), FlowCrew(tmp_path, assets, bucket=bucket, unprivileged=True) as crew:
        key = "k1:" + "0123456789abcdef" * 4
        crew.env |= {"DB_PASSWORD": "hunter2-hunter2", "ARCO_TASK_KEYS": key, "HARMLESS": "yes"}
        crew.env |= {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "root"}
        crew.start("orchestrator", TIMING)
        worker = crew.start("worker", TIMING, "--slots", "1")
        crew.until(crew.ended, "the end of the run")
        with contextlib.suppress(PermissionError):  # this process may be root, which reads all
            shown = Path(f"/proc/{worker.pid}/environ").read_bytes()
            assert b"PATH=/" in shown and b"0123456789abcdef" not in shown
        done = servo_run(crew, "*", "--force")
        assert done.returncode == 0, done.stderr
        for run_id in (crew.run_id, json.loads(done.stdout)["run_id"]):
            rows = tasks_of(crew.open(), run_id).values()
            assert {row.asset_key: (row.rows, row.error_message) for row in rows} == {
                "flow.trusted": (1, ""),
                "flow.other": (1, ""),
            }


def _peak_kib(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])
