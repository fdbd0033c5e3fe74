"""The figures of the HTTP API: each module measures its own, in a folder of its own.

    python -m benchmarks.api [--quick] [--only requests]

The peers, Airflow and Dagster, are those of `make peers`. All of it takes about six minutes.
A module `benchmarks/api_NAME.py` has `measure(at, quick)`, which answers with figures.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.modules import main

if __name__ == "__main__":
    main("api", __doc__)
