"""CPU time of `servo --help`, over that of `dagster --help`.

Both are started as users start them, in turn, so that a busy machine slows down both.
`make peers` installs Dagster. Besides: the help of one group and of one command.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.workload import arguments, progress, report

SERVO = Path(sys.executable).parent / "servo"
DAGSTER = Path(__file__).resolve().parents[1] / ".peers" / "dagster" / "bin" / "dagster"


def cpu_s(command: list[str]) -> float:
    """User and system time of a process and of its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    rounds = 3 if arguments(__doc__).parse_args().quick else 15
    if not DAGSTER.exists():
        raise SystemExit(f"{DAGSTER} is missing; run: make peers")
    commands = {
        "servo_help": [str(SERVO), "--help"],
        "servo_runs_help": [str(SERVO), "runs", "--help"],
        "servo_runs_list_help": [str(SERVO), "runs", "list", "--help"],
        "dagster_help": [str(DAGSTER), "--help"],
    }
    for command in commands.values():  # writes byte code, and fills the page cache
        cpu_s(command)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}")
        for name, command in commands.items():
            seconds[name].append(cpu_s(command))
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    ratio = medians["servo_help"] / medians["dagster_help"]
    report(
        {
            **{f"{name}_cpu_ms": round(each * 1e3, 1) for name, each in medians.items()},
            "help_over_dagster": round(ratio, 4),
        }
    )


if __name__ == "__main__":
    main()
