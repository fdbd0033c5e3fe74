"""What ten checks cost: against a Spark write without any, and against Great Expectations.

The data is 20,000,000 orders of ten columns. Ours is one Spark write, then `evaluate`
over what was written, as a worker does it. Great Expectations runs the same ten on
Spark over the same files, in a process and an environment of its own (`make peers`),
where its session is warm before the clock starts; with and without its cache, and the
better of the two counts.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.spark.session import open_session
from arco.storage.local import LocalStore
from arco.worker.checks import CheckContext, Subject, evaluate
from benchmarks.workload import arguments, folder, progress, report, timed
from servo.check import (
    accepted_values,
    expression,
    in_range,
    matches,
    not_null,
    references,
    row_count,
    unique,
)
from servo.contract.manifest import Check
from servo.contract.task import CheckResult, InputRef, MaterializationRef

PEER = Path(__file__).resolve().parents[1] / ".peers" / "gx" / "bin" / "python"
COUNTRIES = ["AT", "BE", "CH", "DE", "ES", "FR", "IT", "NL", "PL", "PT"]
STATUSES = ["new", "paid", "sent", "done", "back"]
CUSTOMERS = 100_000
EMAIL = r"[a-z0-9._]+@[a-z0-9.-]+\.[a-z]{2,8}"

COLUMNS = (
    "id AS order_id",
    f"pmod(hash(id), {CUSTOMERS}) AS customer_id",
    "concat('user', pmod(hash(id, 1), 1000000), '@mail', pmod(id, 50), '.example') AS email",
    f"element_at(array({', '.join(map(repr, STATUSES))}), cast(pmod(id, 5) + 1 AS int)) AS status",
    f"element_at(array({', '.join(map(repr, COUNTRIES))}), cast(pmod(hash(id, 2), 10) + 1 AS int))"
    " AS country",
    "cast(pmod(hash(id, 3), 20) + 1 AS int) AS quantity",
    "cast(pmod(hash(id, 4), 1000000) / 100 AS decimal(12, 2)) AS amount",
    "rand(7) AS discount",
    "timestamp_seconds(1735689600 + pmod(id, 31536000)) AS ordered_at",
    "cast(timestamp_seconds(1735689600 + pmod(id, 31536000)) AS date) AS day",
)


def checks(rows: int) -> list[Check]:
    return [
        row_count(min=rows, max=rows),
        not_null("order_id"),
        not_null("email"),
        unique("order_id"),
        accepted_values("status", STATUSES),
        in_range("quantity", min=1, max=20),
        in_range("discount", min=0, max=1),
        matches("email", EMAIL),
        references("customer_id", "shop.customers.customer_id"),
        expression("amount >= 0 AND quantity > 0"),
    ]


class Shop:
    """A session, and a store that the orders are written to."""

    def __init__(self, root: Path, rows: int, memory: str) -> None:
        self.root, self.rows = root, rows
        self.session = open_session(conf={"spark.driver.memory": memory})
        self.store = LocalStore(root)
        self.customers = self._written("shop.customers", self._customers())

    def _customers(self) -> Any:
        return self.session.range(CUSTOMERS).selectExpr("cast(id AS int) AS customer_id")

    def orders(self) -> Any:
        return self.session.range(self.rows).selectExpr(*COLUMNS)

    def _written(self, asset: str, frame: Any) -> InputRef:
        path = f"data/{asset}"
        shutil.rmtree(self.root / path, ignore_errors=True)
        frame.write.option("compression", "zstd").parquet(f"file://{self.root}/{path}")
        version = MaterializationRef(partition="", materialization_id="m", path=path)
        return InputRef(asset=asset, materializations=(version,))

    def write(self) -> InputRef:
        return self._written("shop.orders", self.orders())

    def evaluate(self, ref: InputRef) -> tuple[CheckResult, ...]:
        subject = Subject.read(self.store, ref)
        around = CheckContext(self.store, references=(self.customers,), frame=self._frame)
        found = evaluate(checks(self.rows), subject, around)
        assert all(each.passed for each in found), [each for each in found if not each.passed]
        return found

    def _frame(self, ref: InputRef) -> Any:
        return self.session.read.parquet(f"file://{self.root}/{ref.materializations[0].path}")


def peer(root: Path, rows: int, rounds: int, memory: str, *, persist: bool) -> list[float]:
    """Seconds of each round of Great Expectations' over the same files.

    `persist`, which is its default, has Spark cache the frame.
    """
    script = Path(__file__).with_name("peers") / "gx_checks.py"
    given = {
        "orders": f"{root}/data/shop.orders",
        "customers": f"{root}/data/shop.customers",
        "rows": rows,
        "rounds": rounds,
        "memory": memory,
        "persist": persist,
        "statuses": STATUSES,
        "email": EMAIL,
    }
    command = [str(PEER), str(script), json.dumps(given)]
    env = {**os.environ, "PYSPARK_PYTHON": str(PEER), "GX_ANALYTICS_ENABLED": "false"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _peer_s(root: Path, rows: int, rounds: int, memory: str, *, persist: bool) -> float:
    found = peer(root, rows, rounds, memory, persist=persist)
    cached = "with" if persist else "without"
    progress(f"Great Expectations {cached} cache: {', '.join(f'{s:.2f} s' for s in found)}")
    return statistics.median(found)


def measure(root: Path, rows: int, rounds: int, memory: str, *, gx: bool) -> dict[str, object]:
    shop = Shop(root, rows, memory)
    shop.evaluate(shop.write())  # both are warm from here on
    plain, ours = [], []
    found: tuple[CheckResult, ...] = ()
    for number in range(rounds):
        write_s, ref = timed(shop.write)
        check_s, found = timed(shop.evaluate, ref)
        plain.append(write_s)
        ours.append(check_s)
        progress(f"round {number + 1}: write {write_s:.2f} s, checks {check_s:.2f} s")
    for each in found:
        progress(f"  {each.name}: {each.method}, {each.wall_ms} ms")
    shop.session.stop()
    write_s, ours_s = statistics.median(plain), statistics.median(ours)
    figures: dict[str, object] = {"with_over_without": round((write_s + ours_s) / write_s, 3)}
    if gx:
        gx_s = min(_peer_s(root, rows, rounds, memory, persist=each) for each in (True, False))
        figures |= {"gx_over_ours": round(gx_s / ours_s, 2), "gx_s": round(gx_s, 3)}
    return {**figures, "rows": rows, "write_s": round(write_s, 3), "ours_s": round(ours_s, 3)}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="6g", help="of Spark's driver, for either side")
    parser.add_argument("--no-gx", action="store_true", help="without Great Expectations")
    args = parser.parse_args()
    rows, rounds = (200_000, 1) if args.quick else (args.rows, args.rounds)
    if not args.no_gx and not PEER.exists():
        sys.exit("Great Expectations is not there: run `make peers`, or give --no-gx")
    with folder(args.dir) as at:
        report(measure(at, rows, rounds, args.memory, gx=not args.no_gx))


if __name__ == "__main__":
    main()
