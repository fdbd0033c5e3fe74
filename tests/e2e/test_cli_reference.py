"""The page about the commands is about the commands that there are.

After a change that is meant: `ARCO_UPDATE_GOLDEN=1 pytest tests/e2e/test_cli_reference.py`.
"""

from __future__ import annotations

import os

from tests.golden.cli_reference import PAGE, page


def test_the_reference_describes_every_command_as_it_is() -> None:
    text = page()
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        PAGE.write_text(text, "utf-8")
    assert PAGE.read_text("utf-8") == text, "the module's docstring says how to update it"
