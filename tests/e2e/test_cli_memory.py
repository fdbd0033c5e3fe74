from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from arco.cli import deferral
deferral.defer()
from arco.cli import app
assert "pyarrow" not in sys.modules
assert app.run(["admin", "compact", "--once", "--store", sys.argv[1]]) == 3
import pyarrow as pa
print(pa.default_memory_pool().backend_name)
"""


def test_a_command_chooses_the_allocator_before_arrow_is_loaded(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "none")], capture_output=True, text=True
    )
    assert done.stdout == "system\n", done.stderr


CATALOG = """
import sys
from arco.cli import deferral
deferral.defer()
from arco.cli import app
command = ["catalog", "namespace", "create", "sales", "--tag", "a=b"]
sys.exit(app.run([*command, "--store", sys.argv[1]]))
"""


def test_a_command_loads_what_the_modules_that_it_uses_have_deferred(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CATALOG, str(tmp_path)], capture_output=True, text=True
    )
    assert done.stdout == "created namespace sales in generation 1\n", done.stderr
