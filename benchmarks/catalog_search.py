"""Search on 100,000 assets with 20 columns each.

Ten projects are deployed, so the documents are what the fold makes of them. Fifty queries as
people type them (names, parts of names, columns, words of descriptions, filters, typing errors)
take turns with one scan of the same texts, which DuckDB has in memory: `ILIKE` of the query's
first word on every field. The scan neither ranks nor explains. A search with a `namespace:`
filter by a process that has read nothing yet is compared with the bytes of all files of search.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb

from arco.app import Workspace
from arco.search.reader import SearchReader
from arco.search.tables import DOCUMENTS
from arco.search.terms import parse
from benchmarks.workload import (
    arguments,
    counted,
    filled_once,
    folder,
    ms,
    open_workspace,
    progress,
    report,
    timed,
)
from servo.contract.manifest import Asset, Code, ColumnDef, Manifest

PROJECTS, ASSETS, COLUMNS, NAMESPACES = 10, 10_000, 20, 10
"""Of each project: assets, and the namespaces that they are in."""
ARTIFACT = b"a project"
THINGS = """
    order customer payment product session event invoice shipment refund user account ledger store
    item click campaign ticket stock supplier visit price discount cart region currency device
    channel contract budget forecast
""".split()  # noqa: SIM905
QUALITIES = """
    daily hourly monthly raw clean staged active latest gross net total first last open closed
    late early weekly yearly pending
""".split()  # noqa: SIM905
PROPERTIES = """
    id name amount count date status type code value rate flag created_at updated_by total ratio
    email phone city country key
""".split()  # noqa: SIM905
PROSE = """
    the of for from by with per all each that is are in and rows one table facts values computed
    source system team report finance dashboard received reconciled estimated audited
""".split()  # noqa: SIM905
TEXTS = ("columns", "owners", "tags", "previous_names", "description", "column_descriptions")


def manifest(number: int, assets: int, rng: random.Random) -> Manifest:
    def word() -> str:
        return rng.choice(THINGS)

    def column() -> str:
        return f"{word()}_{rng.choice(PROPERTIES)}"

    def prose(words: int) -> str:
        return " ".join(rng.choice((*PROSE, *THINGS)) for _ in range(words)).capitalize() + "."

    def columns() -> tuple[ColumnDef, ...]:
        names = dict.fromkeys(column() for _ in range(2 * COLUMNS))
        return tuple(
            ColumnDef(name=name, type="string", description=prose(4) if rng.random() < 0.5 else "")
            for name in list(names)[:COLUMNS]
        )

    return Manifest(
        project=f"project_{number}",
        artifact=hashlib.sha256(ARTIFACT).hexdigest(),
        assets=tuple(
            Asset(
                key=f"area_{number}{at % NAMESPACES}."
                f"{rng.choice(QUALITIES)}_{word()}_{word()}_{number}{at:04}",
                code=Code(module="shop", name=f"a{at}"),
                description=prose(12),
                owners=(f"team_{word()}",),
                tags={"tier": rng.choice(("gold", "silver", "bronze"))},
                columns=columns(),
                transform=f"{at:064x}",
            )
            for at in range(assets)
        ),
    )


def fill(workspace: Workspace, projects: int, assets: int) -> list[str]:
    """The keys of all assets."""
    rng, keys = random.Random(3), []
    for number in range(projects):
        declared = manifest(number, assets, rng)
        seconds, _ = timed(workspace.commands.orchestration.deploy, declared, ARTIFACT)
        keys += [asset.key for asset in declared.assets]
        progress(f"{len(keys):,} assets; the last {assets:,} in {seconds:.1f} s")
        workspace.upkeep.merger.merge()
    workspace.upkeep.merger.merge(everything=True)
    return keys


def queries(keys: list[str], rng: random.Random) -> list[str]:
    """Fifty; one in five has a typing error."""
    names = [rng.choice(keys).partition(".")[2] for _ in range(20)]
    typos = [_mistyped(f"{rng.choice(THINGS)}_{rng.choice(PROPERTIES)}", rng) for _ in range(6)]
    typos += [_mistyped(name, rng) for name in names[:4]]
    return [
        *(rng.choice(keys) for _ in range(5)),
        *names[5:10],
        *(name[: len(name) - 3] for name in names[10:15]),
        *(f"{rng.choice(THINGS)}_{rng.choice(PROPERTIES)}" for _ in range(8)),
        *(f"{rng.choice(QUALITIES)} {rng.choice(THINGS)}" for _ in range(5)),
        *(rng.choice(("reconciled", "audited", "estimated", "dashboard")) for _ in range(4)),
        *(f"{rng.choice(THINGS)} tag:tier=gold owner:team_cart" for _ in range(4)),
        *(f"{rng.choice(THINGS)} namespace:{rng.choice(keys).partition('.')[0]}" for _ in range(4)),
        *typos,
    ]


def _mistyped(word: str, rng: random.Random) -> str:
    """Two letters swapped, or one left out."""
    at = rng.randrange(1, min(len(word), 8) - 2)
    if word[at] != word[at + 1] and rng.random() < 0.5:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at + 1 :]


class Scan:
    """`ILIKE` over the same texts, in DuckDB's own memory."""

    def __init__(self, reader: SearchReader) -> None:
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.register("documents", reader.snapshot.scan(DOCUMENTS))
        chosen = ", ".join(TEXTS)
        self._duckdb.execute(
            f"CREATE TABLE texts AS SELECT namespace || '.' || name AS key, {chosen} FROM documents"
        )

    def count(self, word: str) -> int:
        tests = " OR ".join(f"{field} ILIKE $word" for field in ("key", *TEXTS))
        sql = f"SELECT count(*) FROM texts WHERE {tests}"
        (row,) = self._duckdb.execute(sql, {"word": f"%{word}%"}).fetchall()
        return int(row[0])


def measure(at: Path, quick: bool) -> dict[str, object]:
    at = at / "workspace"
    size = (2, 500) if quick else (PROJECTS, ASSETS)
    keys = filled_once(at, lambda: fill(open_workspace(at), *size))
    rng = random.Random(5)
    asked = queries(keys, rng)
    reader = SearchReader(open_workspace(at).read.snapshot())
    first, _ = timed(reader.search, asked[0])
    scan = Scan(reader)
    searches: dict[str, float] = {}
    scans: list[float] = []
    for query in rng.sample(asked, len(asked)):
        searches[query], _ = timed(reader.search, query)
        scans.append(timed(scan.count, parse(query).terms[0].raw)[0])
    for kind, chosen in _kinds(asked):
        progress(f"{kind}: {ms([searches[query] for query in chosen])} ms")
    fraction, read = _cold(at, keys)
    return {
        "search_over_scan": round(ms(list(searches.values())) / ms(scans), 3),
        "search_100k_ms": ms(list(searches.values())),
        "scan_100k_ms": ms(scans),
        "search_typos_ms": ms([searches[query] for query in asked[-10:]]),
        "search_first_ms": round(first * 1e3, 1),
        "search_cold_bytes_fraction": fraction,
        "search_cold_bytes": read,
    }


def _kinds(asked: list[str]) -> Iterator[tuple[str, list[str]]]:
    at = 0
    sizes = {"keys": 5, "names": 5, "prefixes": 5, "columns": 8, "two words": 5}
    sizes |= {"descriptions": 4, "filters": 4, "namespaces": 4, "typing errors": 10}
    for kind, size in sizes.items():
        yield kind, asked[at : at + size]
        at += size


def _cold(at: Path, keys: list[str]) -> tuple[float, int]:
    """What a first search in a namespace reads, over the bytes of all files of documents."""
    workspace, meter = counted(at)
    snapshot = workspace.read.snapshot()
    files = snapshot.manifest(DOCUMENTS).files()
    namespace = keys[0].partition(".")[0]
    meter.bytes = 0
    SearchReader(snapshot).search(f"order namespace:{namespace}")
    return round(meter.bytes / sum(ref.bytes for ref in files), 4), meter.bytes


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
