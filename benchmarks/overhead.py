"""Seconds per no-op task, against Dagster and Prefect.

The scripts of the peers are in `benchmarks/peers`, and run in environments
of their own under `.peers/` (`make peers`). All measure from the trigger to the run's
success, with definitions loaded before; ours is on a local disk, with fsync. The
first run of a process is a warm-up for each side that can have one: the peers start a
process for each run, so their first is all there is, and ours is the first too.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
if sys.argv[1:2] == ["--ours"]:
    from arco.worker.slots import slot_host

    slot_host().start()  # as `servo run` does, beside its own imports

from benchmarks.flows import Shape, measure
from benchmarks.workload import arguments, folder, progress, report

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".peers"


def peer(
    name: str, script: str, *given: str, env: dict[str, str] | None = None
) -> dict[str, float]:
    python = PEERS / name / "bin" / "python"
    command = [str(python), "-m", f"benchmarks.peers.{script}", *given]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            found: dict[str, float] = json.loads(line.removeprefix("RESULT "))
            return found
    raise RuntimeError(f"{name} gave no result:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def ours_once(shape: str, n: int, at: str) -> None:
    """One run in this process: what `ours` starts for each measurement."""
    known: Shape = "fan" if shape == "fan" else "chain"
    gc.freeze()  # as `servo` does after its imports
    with tempfile.TemporaryDirectory(dir=at) as made:
        (found,) = measure(Path(made), known, n)
    print("RESULT " + json.dumps({"per_task_ms": found.per_task * 1e3, "first": found.first}))
    sys.stdout.flush()
    os._exit(0)


def ours(shape: str, n: int, at: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.overhead", "--ours", shape, str(n), str(at)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            found: dict[str, float] = json.loads(line.removeprefix("RESULT "))
            return found
    raise RuntimeError(done.stdout[-2000:] + done.stderr[-4000:])


@contextmanager
def prefect_server() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "PREFECT_HOME": home, "DO_NOT_TRACK": "1"}
        command = [str(PEERS / "prefect" / "bin" / "prefect"), "server", "start"]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        server = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(port)
            yield f"http://127.0.0.1:{port}/api"
        finally:
            server.terminate()
            server.wait()


def _wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                time.sleep(3)
                return
        time.sleep(0.2)
    raise RuntimeError("Prefect's server did not start")


def main() -> None:
    if sys.argv[1:2] == ["--ours"]:
        ours_once(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["dagster", "prefect"])
    args = parser.parse_args()
    rounds, n = (1, 100) if args.quick else (args.rounds, 1_000)
    with folder(args.dir) as at, prefect_server() as url:
        figures = compare(at, url, rounds, n, args.only)
    report(figures)


def compare(at: Path, url: str, rounds: int, n: int, only: str | None) -> dict[str, object]:
    got: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        got.setdefault(name, []).append(value)
        progress(f"{name}: {value:.2f}")

    prefect = {"PREFECT_API_URL": url}
    for _ in range(rounds):
        if only != "prefect":
            for mode in ("ephemeral", "sqlite"):
                found = peer("dagster", "dagster_graph", "--mode", mode, "-n", str(n))
                note(f"dagster_{mode}_ms", found["per_task_ms"])
                note(f"dagster_{mode}_first_s", found["first"])
        found = ours("fan", n, at)
        note("servo_fan_ms", found["per_task_ms"])
        note("servo_first_s", found["first"])
        if only != "dagster":
            found = peer("prefect", "prefect_graph", "--shape", "fan", "-n", str(n), env=prefect)
            note("prefect_fan_ms", found["per_task_ms"])
            note("servo_chain_ms", ours("chain", 100, at)["per_task_ms"])
            given = ("--shape", "chain", "-n", "100")
            found = peer("prefect", "prefect_graph", *given, env=prefect)
            note("prefect_chain_ms", found["per_task_ms"])
    middle = {name: round(statistics.median(values), 3) for name, values in got.items()}
    return {**ratios(middle), **middle}


def ratios(middle: dict[str, float]) -> dict[str, object]:
    pairs: Sequence[tuple[str, str, str]] = (
        ("dagster_sqlite_over_servo", "dagster_sqlite_ms", "servo_fan_ms"),
        ("dagster_ephemeral_over_servo", "dagster_ephemeral_ms", "servo_fan_ms"),
        ("prefect_fan_over_servo", "prefect_fan_ms", "servo_fan_ms"),
        ("prefect_chain_over_servo", "prefect_chain_ms", "servo_chain_ms"),
        ("first_task_dagster_over_servo", "dagster_sqlite_first_s", "servo_first_s"),
    )
    return {
        name: round(middle[above] / middle[below], 2)
        for name, above, below in pairs
        if above in middle and below in middle
    }


if __name__ == "__main__":
    main()
