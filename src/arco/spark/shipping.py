"""How a task's Python functions reach the processes that call them.

Spark sends a function as the name of its module if it has one, and as code if not.
The modules of an artifact are on the path of its slots alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType


def ship_as_code(modules: Iterable[str]) -> None:
    """Send functions and classes of these modules, and of their submodules, as code.

    Also of modules that are imported later. Repeated calls change nothing.
    """
    from pyspark import cloudpickle

    register: Callable[[ModuleType], None] = cloudpickle.register_pickle_by_value
    for name in modules:
        module, later = sys.modules.get(name), ModuleType(name)
        sys.modules[name] = module or later  # it accepts names of imported modules only
        register(sys.modules[name])
        if module is None:
            del sys.modules[name]
