"""Golden files, and making output the same on every machine and at every time."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden" / "cli"

_PATTERNS = [
    (re.compile(r"arco_[0-9A-Z]{26}_[0-9a-f]{64}"), "arco_01KEY_00SECRET"),
    (re.compile(r"arco_[0-9A-Z]{26}_"), "arco_01KEY_"),
    (re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b"), "01ULID" + "0" * 20),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"), "2026-01-01T00:00:00.000000Z"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\b"), "2026-01-01T00:00:00.000000"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"), "2026-01-01 00:00:00Z"),
    (re.compile(r"col_[0-9a-f]{16}"), "col_" + "0" * 16),
    (re.compile(r"task_[0-9a-f]{16}"), "task_" + "0" * 16),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0" * 64),
    (re.compile(r"(?m)(^|key +)[0-9a-f]{16}(?=  broken|$)"), r"\g<1>" + "0" * 16),
    (re.compile(r" *\b\d+(\.\d)? (B|KiB|MiB)\b"), " <size>"),
    (re.compile(r" +bytes\b"), " bytes"),
    (re.compile(r" *\b\d+\.\d s\b"), " <time>"),
    (re.compile(r"\bplan [0-9a-f]{16}\b"), "plan <digest>"),
    (re.compile(r"(?m)^[0-7][0-9A-HJKMNP-TV-Z]{9}(?=  )"), "01RUN00000"),
    (re.compile(r"(?<=  )01[0-9A-HJKMNP-TV-Z]{8}(?=  )"), "01RUN00000"),
    (re.compile(r"(?<=assets, generation )\d+"), "9"),
    (re.compile(r"\bsince \d{4}-\d\d-\d\d\b"), "since 2026-01-01"),
]


def normalised(text: str, **paths: str) -> str:
    """Ids, times, checksums, sizes and the given paths, replaced by their kind."""
    for name, path in paths.items():
        text = text.replace(path, f"<{name}>")
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def check_golden(name: str, text: str) -> None:
    path = FOLDER / name
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        path.write_text(text, "utf-8")
    expected = path.read_text("utf-8")
    if expected != text:
        lines = difflib.unified_diff(expected.splitlines(), text.splitlines(), "golden", "now", n=1)
        hint = "ARCO_UPDATE_GOLDEN=1 writes it anew"
        raise AssertionError("\n".join([f"{name} differs; {hint}", *lines]))
