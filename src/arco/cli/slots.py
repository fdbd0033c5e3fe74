"""Starts the slot host before other imports."""

from __future__ import annotations

import importlib
import os
import sys


def start_slot_host() -> None:
    """Its imports take as long as those of the command, and run in parallel."""
    if not {"--remote", "--dry-run"} & set(sys.argv) and "ARCO_API" not in os.environ:
        importlib.import_module("arco.worker.slots").slot_host().start()
