"""Builds the web page before a wheel is made, also by `pip install` from a checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable install serves what `make ui` has built, and is not kept waiting here."""
        script = Path(self.root, "ui", "build.py")
        if version == "editable" or not script.exists():
            return
        done = subprocess.run([sys.executable, str(script)])
        if done.returncode:
            raise RuntimeError("the web page cannot be built; see above")
