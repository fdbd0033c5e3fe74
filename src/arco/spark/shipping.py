"""How a task's Python functions reach the processes that call them.

Spark sends a function as the name of its module if it has one, and as code if not.
The modules of an artifact have names that exist in the worker alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType


def ship_as_code(package: str) -> None:
    """Functions and classes of this package, and of those below, go to Spark as code.

    The package must have been imported. Again for the same one: changes nothing.
    """
    from pyspark import cloudpickle

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    register(sys.modules[package])
