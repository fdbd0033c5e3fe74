"""`servo orchestrator` and `servo worker` as processes of their own, on a local disk.

Tasks tell of themselves through files in a folder: `{asset}.started` holds the process
that runs it first. What a task does the second time may differ from the first.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from arco.app import Workspace
from arco.clock import MovedClock
from arco.orchestration.tables import RunRow
from tests.kit import forkserver
from tests.kit.flows import deploy, end_of, tasks_of, trigger
from tests.kit.forkserver import Forked
from tests.kit.servers import Backend

ROOT = Path(__file__).parents[2]
QUICK = {"interval": 0.1, "heartbeat": 0.5, "zombie-after": 4, "claim": 6}
"""The dead are missed soon."""
PATIENT = {"interval": 0.1, "heartbeat": 0.5, "zombie-after": 30, "claim": 40}
"""Nobody is missed within a test: what moves on was handed on."""
GIVE_UP_S = 150.0

UNPRIVILEGED = """
import ctypes, os, sys
# CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON
for capability in (1, 2, 19, 21, 38):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Runs a command for which modes of files and protected processes count, whoever the user is."""

HEADER = '''
import os, time
from pathlib import Path
from servo import AssetContext, AssetIn, Retry, asset

FOLDER = Path({folder!r})
again = Retry(max_attempts=9, delay="1s", max_delay="1s")


def worker():
    """The process of this task's worker: it has started the slot host, which forked the slot."""
    return int(Path(f"/proc/{{os.getppid()}}/stat").read_text().rpartition(")")[2].split()[1])


def first(name):
    """Whether nobody came here before; who comes first leaves its number."""
    try:
        file = open(FOLDER / (name + ".started"), "x")
    except FileExistsError:
        return False
    with file:
        file.write(str(worker()))
    return True
'''


class Process:
    """One of them; what it says goes to a file."""

    def __init__(self, crew: FlowCrew, role: str, number: int, *arguments: str) -> None:
        self.role = role
        self.log = crew.folder / f"{role}-{number}.log"
        self._process: subprocess.Popen[bytes] | Forked
        with open(self.log, "w") as log:
            if crew.unprivileged:
                command = [sys.executable, "-m", "arco.cli", role, *arguments]
                self._process = subprocess.Popen(
                    [sys.executable, "-c", UNPRIVILEGED, *command],
                    cwd=crew.folder,
                    env=crew.env,
                    stdout=log,
                    stderr=log,
                )
            else:
                self._process = forkserver.shared().start(
                    *("arco.cli", role, *arguments),
                    env=crew.env,
                    cwd=crew.folder,
                    stdout=log,
                    stderr=log,
                )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Whether it is past its imports."""
        return self.log.stat().st_size > 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=GIVE_UP_S)

    def wait(self) -> int:
        """Until it ends by itself; the exit code."""
        return self._process.wait(timeout=GIVE_UP_S)

    def check_alive(self) -> None:
        code = self._process.poll()
        assert code is None, f"{self.role} ended with {code}: {self.log.read_text()[-3000:]}"


class FlowCrew:
    """A project, deployed to a workspace of its own, and the processes that run it."""

    def __init__(
        self,
        folder: Path,
        assets: str,
        *,
        unprivileged: bool = False,
        bucket: Backend | None = None,
        clock: Path | None = None,
    ) -> None:
        """With `unprivileged`, the modes of files are respected even by root's processes, and
        they cannot read the memory of protected processes.

        Processes find the credentials of a bucket of S3 in their environment. With a `clock`,
        a file that moves the clock of all of them, nothing is triggered: schedules do.
        """
        self.folder = folder
        self.unprivileged = unprivileged
        self.url = f"file://{folder}/lake" if bucket is None else f"{bucket.url}/{folder.name}"
        self._options = {} if bucket is None else dict(bucket.options)
        kept = ("PATH", "HOME", "LANG", "TMPDIR")
        self.env = {name: os.environ[name] for name in kept if name in os.environ}
        self.env |= {"ARCO_STORE": self.url}
        self.env |= {} if clock is None else {"ARCO_CLOCK": str(clock)}
        self._clock = None if clock is None else MovedClock(clock)
        self.env |= {f"AWS_{name.upper()}": str(v).lower() for name, v in self._options.items()}
        self.processes: list[Process] = []
        self._started = 0
        self.workspace = self.open()
        self.deploy(assets)
        self.run_id = trigger(self.workspace) if clock is None else ""

    def deploy(self, assets: str) -> None:
        deploy(self.workspace, HEADER.format(folder=str(self.folder)) + assets)

    def make_writable(self, writable: bool) -> None:
        """Let the processes write to the store, or refuse it."""
        mode = "u+w" if writable else "a-w"
        subprocess.run(["chmod", "-R", mode, str(self.folder / "lake")], check=True)

    def open(self) -> Workspace:
        return Workspace.open(self.url, "default", "main", options=self._options, clock=self._clock)

    def start(self, role: str, timing: dict[str, float], *arguments: str) -> Process:
        self._started += 1
        given = [text for name, value in timing.items() for text in (f"--{name}", str(value))]
        if role == "worker":
            given += ["--cache", str(self.folder / "cache")]
        made = Process(self, role, self._started, *given, *arguments)
        self.processes.append(made)
        return made

    def servo(self, *arguments: str) -> str:
        done = forkserver.shared().run("arco.cli", *arguments, env=self.env, cwd=self.folder)
        assert done.returncode == 0, done
        return done.stdout

    def drop(self, process: Process) -> None:
        self.processes.remove(process)

    # -- waiting -------------------------------------------------------------------------

    def until(self, reached: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + GIVE_UP_S
        while not reached():
            for process in self.processes:
                process.check_alive()
            assert time.monotonic() < deadline, f"waited for {what} in vain: {self.describe()}"
            time.sleep(0.05)

    def first_process(self, asset: str) -> int | None:
        """Who has started an asset first."""
        file = self.folder / f"{asset}.started"
        text = file.read_text() if file.exists() else ""
        return int(text) if text else None

    def ended(self) -> RunRow | None:
        return end_of(self.workspace, self.run_id)

    def describe(self) -> str:
        tasks = tasks_of(self.workspace, self.run_id).values() if self.run_id else ()
        rows = [(t.asset_key, t.state, t.attempt, t.error_message) for t in tasks]
        said = {p.log.name: p.log.read_text()[-1500:] for p in self.processes}
        return f"{rows}\n{said}"

    # -- the end -------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
