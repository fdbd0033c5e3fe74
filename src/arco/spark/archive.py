"""Spark's classes, parsed once: a class-data archive makes the JVM's start a few times shorter.

    python -m arco.spark.archive

runs a small workload with `-XX:ArchiveClassesAtExit` and puts the archive into the user's cache
(some 170 MB), under a name made of the Java and the PySpark that it is for. A JVM for which it does
not fit any more starts without it, and without a message.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from arco.errors import Unavailable

_QUIET: Final = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr", "-Xlog:cds*=off")
_OFF: Final = "ARCO_SPARK_ARCHIVE"
"""Set to `off`, no archive is used."""
_WORKLOAD: Final = "arco.spark.archive_workload"
"""Started by its name: it imports the session, which uses the archive."""


def find_java(env: Mapping[str, str]) -> Path | None:
    """The `java` that Spark will start: JAVA_HOME's, or the one on the path."""
    home = env.get("JAVA_HOME", "")
    java = shutil.which(f"{home}/bin/java" if home else "java", path=env.get("PATH"))
    return Path(java).resolve() if java else None


def java_version(java: Path) -> str:
    """The version that a `java` prints, such as 17.0.2; empty if it cannot be started."""
    try:
        done = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def archive_path(env: Mapping[str, str]) -> Path | None:
    """Where the archive for this Java and this PySpark is, or would be."""
    java, spark = find_java(env), _pyspark()
    if java is None or spark is None:
        return None
    parts = (str(java), _stamp(java), str(spark), _stamp(spark / "version.py"))
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    cache = env.get("XDG_CACHE_HOME") or str(Path(env.get("HOME") or "~").expanduser() / ".cache")
    return Path(cache) / "arco" / "spark" / f"classes-{key}.jsa"


def _pyspark() -> Path | None:
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _stamp(path: Path) -> str:
    """Changes when the file is replaced: the time of its change, and its size."""
    with contextlib.suppress(OSError):
        stat = path.stat()
        return f"{stat.st_mtime_ns}:{stat.st_size}"
    return ""


def archive_options(env: Mapping[str, str]) -> tuple[str, ...]:
    """JVM options that use the archive, if there is one. Never raises."""
    with contextlib.suppress(OSError):
        path = archive_path(env)
        if env.get(_OFF) != "off" and path is not None and path.is_file():
            return (*_QUIET, f"-XX:SharedArchiveFile={path}")
    return ()


# -- building -----------------------------------------------------------------------------


def build(env: Mapping[str, str]) -> Path:
    """Make the archive, unless it is there. Raises Unavailable where that cannot be done."""
    path = archive_path(env)
    if path is None:
        raise Unavailable(
            "Java or PySpark is missing; the archive cannot be created",
            hint="install Java 17 and: pip install 'arco[spark]'",
        )
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="making-") as folder:
        archive = Path(folder) / path.name
        _run_workload(archive, env)
        archive.rename(path)
    return path


def _run_workload(archive: Path, env: Mapping[str, str]) -> None:
    command = [sys.executable, "-m", _WORKLOAD, str(archive)]
    done = subprocess.run(command, env={**env, _OFF: "off"}, capture_output=True, text=True)
    if done.returncode != 0 or not archive.is_file():
        raise Unavailable(
            "the class-data archive could not be created",
            hint=(done.stderr.strip().splitlines() or ["Java did not write an archive"])[-1],
        )


if __name__ == "__main__":
    print(build(os.environ))
