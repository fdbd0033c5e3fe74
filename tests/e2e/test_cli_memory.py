from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import arco.cli.app
from arco.cli.allocator import use_little_memory
assert "pyarrow" not in sys.modules
use_little_memory()
import pyarrow as pa
print(pa.default_memory_pool().backend_name)
"""


def test_a_command_chooses_the_allocator_before_arrow_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "system\n", done.stderr
