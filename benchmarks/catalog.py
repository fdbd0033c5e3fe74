"""The figures of the catalog's depth: each module measures its own, in a folder of its own.

    python -m benchmarks.catalog [--quick] [--only search]

A module `benchmarks/catalog_NAME.py` has `measure(at, quick)`, which answers with figures.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.modules import main

if __name__ == "__main__":
    main("catalog", __doc__)
