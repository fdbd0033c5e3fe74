"""A standalone Spark cluster on loopback, from the pip package alone: a master and workers.

    with spark_cluster(folder) as cluster:
        host = SparkHost(cluster.settings())
        ...
        cluster.kill_worker()       # kill -9, its executors too

It takes free ports, keeps all logs under its folder, and stops only what it started.
Each worker offers one core and has its executor in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from arco.spark.archive import archive_options
from arco.spark.settings import SparkSettings

_START_TIMEOUT_S = 180.0


def jvm_options() -> str:
    """What makes a JVM of a test start, and end, soon."""
    return " ".join(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *archive_options(os.environ)))


class Process:
    """A daemon of the cluster: the shell script becomes the JVM, so its id is the JVM's."""

    def __init__(self, log: Path, *command: str) -> None:
        self.log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                [str(_home() / "bin" / "spark-class"), *command],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=_env(),
            )
        self.pid = self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def kill(self) -> None:
        """This process, and those that it started, with -9."""
        started = children(self.pid)
        for pid in (self.pid, *started):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait()


class Cluster:
    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._port, self._web = _free_port(), _free_port()
        self.url = f"spark://127.0.0.1:{self._port}"
        self.master = self._start_master("master.log")
        self.workers: list[Process] = []
        try:
            self._until(lambda: self._state() is not None, self.master)
            for _ in range(workers):
                self._start_worker()
            self.wait_for_workers(workers)
        except BaseException:
            self.stop()
            raise

    def settings(self, conf: Mapping[str, str] | None = None) -> SparkSettings:
        """What a driver needs to use all of this cluster, with small executors."""
        return SparkSettings(
            master=self.url,
            fast_start=True,
            conf={
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                "spark.executor.extraJavaOptions": jvm_options(),
                "spark.driver.memory": "1g",
                **(conf or {}),
            },
        )

    def alive_workers(self) -> int:
        return int(str((self._state() or {}).get("aliveworkers", 0)))

    def wait_for_workers(self, count: int) -> None:
        self._until(lambda: self.alive_workers() >= count, *self.workers)

    def kill_worker(self, index: int = 0) -> None:
        """kill -9 of a worker and of its executors, and it is gone when this returns."""
        self.workers.pop(index).kill()

    def restart_master(self) -> None:
        """kill -9 of the master, and another in its place: it knows no application."""
        self.master.kill()
        self.master = self._start_master("master-again.log")
        self._until(lambda: self._state() is not None, self.master)

    def _start_master(self, log: str) -> Process:
        return Process(
            self.logs / log,
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(self._web)),
        )

    def stop(self) -> None:
        for process in (*self.workers, self.master):
            process.kill()
        self.workers.clear()

    def _start_worker(self) -> None:
        name = f"worker-{len(self.workers)}"
        self.workers.append(
            Process(
                self.logs / f"{name}.log",
                "org.apache.spark.deploy.worker.Worker",
                *("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(self.logs / name), self.url),
            )
        )

    def _state(self) -> dict[str, object] | None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._web}/json/", timeout=5) as answer:
                found: dict[str, object] = json.load(answer)
                return found
        except (OSError, ValueError):  # not up, or up to where every page is the front page
            return None

    def _until(self, ready: Callable[[], bool], *processes: Process) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not ready():
            for process in processes:
                if not process.running:
                    raise RuntimeError(f"it ended: {process.log.read_text()[-2000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not up in {_START_TIMEOUT_S} s; see {self.logs}")
            time.sleep(0.1)


@contextlib.contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    cluster = Cluster(folder, workers)
    try:
        yield cluster
    finally:
        cluster.stop()


def _home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


def _env() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": jvm_options(),
        "PYSPARK_PYTHON": sys.executable,
    }


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def children(pid: int) -> list[int]:
    """The processes that it started, and theirs."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name, in parentheses, may hold blanks.
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text().rpartition(")")[2].split()[1]
                )
    found, frontier = [], [pid]
    while frontier:
        frontier = [child for child, parent in parents.items() if parent in frontier]
        found += frontier
    return found
