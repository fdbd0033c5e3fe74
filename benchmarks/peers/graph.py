"""What the scripts that measure peers share. They run in the peers' own environments, so
this needs the standard library alone.

`fan` is one root, N in the middle and one sink; `chain` is N in a row. Nothing does any work.
Each script prints one line, `RESULT` and a JSON object:

    wall          seconds from the trigger to the run's success
    first         seconds from the trigger to the start of the first task
    per_task_ms   `wall` for each task
    n             how many tasks there were
    ok            whether all of them succeeded
"""

from __future__ import annotations

import argparse
import json


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--shape", choices=["fan", "chain"], default="fan")
    parser.add_argument("-n", type=int, default=100)
    return parser


def report(*, tasks: int, wall_s: float, first_s: float, ok: bool) -> None:
    figures = {
        "wall": wall_s,
        "first": first_s,
        "per_task_ms": wall_s / tasks * 1000,
        "n": tasks,
        "ok": ok,
    }
    print("RESULT " + json.dumps(figures), flush=True)
