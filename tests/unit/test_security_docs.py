"""The guide's table of roles is the program's."""

from __future__ import annotations

import re

from arco.security.permissions import PERMISSIONS, Permission, Role
from tests.architecture.source import ROOT


def test_the_guide_shows_the_permissions_of_each_role() -> None:
    text = (ROOT / "docs" / "guides" / "security.md").read_text("utf-8")
    header = "| permission | " + " | ".join(Role) + " |"
    lines = text.partition(header)[2].splitlines()[2 : 2 + len(Permission)]
    shown: dict[Role, set[str]] = {role: set() for role in Role}
    for line in lines:
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        match = re.fullmatch(r"`(.+)`", name)
        assert match is not None, line
        for role, cell in zip(Role, cells, strict=True):
            if cell:
                shown[role].add(match[1])
    assert shown == {role: {str(p) for p in PERMISSIONS[role]} for role in Role}
