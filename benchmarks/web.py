"""The web page: how much script a browser loads before the first page is painted.

    python -m benchmarks.web

`bundle_kib_gz` is all JavaScript that the overview needs, as it is sent, without DuckDB.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from arco.api.page import FOLDER

_IMPORTS = re.compile(r"""(?:from|import)\s*["']\./([\w.-]+\.js)["']""")


def needed(static: Path, name: str, seen: dict[str, int]) -> None:
    """Adds a module and all that it imports at once."""
    if name in seen:
        return
    packed = (static / f"{name}.gz").read_bytes()
    seen[name] = len(packed)
    for other in _IMPORTS.findall(gzip.decompress(packed).decode("utf-8")):
        needed(static, other, seen)


def main() -> None:
    static = FOLDER / "static"
    html = gzip.decompress((FOLDER / "index.html.gz").read_bytes()).decode("utf-8")
    seen: dict[str, int] = {}
    for name in re.findall(r'"/static/([\w.-]+\.js)"', html):
        needed(static, name, seen)
    (overview,) = [each.name.removesuffix(".gz") for each in static.glob("overview-*.js.gz")]
    needed(static, overview, seen)
    print(f"bundle_kib_gz: {sum(seen.values()) / 1024:.0f} in {len(seen)} files (at most 250)")


if __name__ == "__main__":
    main()
