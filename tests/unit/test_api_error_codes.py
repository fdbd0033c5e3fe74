"""Every code that a problem may have is explained, and nothing else is."""

from __future__ import annotations

import re
from pathlib import Path

from arco.api.problems import STATUS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
REFUSED = re.compile(r'\b(?:refused\(\s*fact,|Refused\()\s*"([a-z_]+)"')
GIVEN = re.compile(r'\bcode="([a-z_]+)"|"not_found", "([a-z_]+)"')


def codes() -> set[str]:
    """Those that the program's text has."""
    names: set[str] = set()
    for file in (ROOT / "src" / "arco").rglob("*.py"):
        text = file.read_text("utf-8")
        names.update(REFUSED.findall(text))
        if "api" in file.relative_to(ROOT).parts:
            names.update(one or other for one, other in GIVEN.findall(text))
    return names


def test_the_page_explains_each_code() -> None:
    tables = PAGE.read_text("utf-8").partition("## Codes")[2]
    cells = re.findall(r"^\| ((?:`[a-z_]+` ?)+)\|", tables, re.MULTILINE)
    explained = {code for cell in cells for code in re.findall(r"`([a-z_]+)`", cell)}
    assert explained == codes() - STATUS.keys()
