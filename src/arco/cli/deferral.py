"""Imports that wait until a command is called, so that help answers at once.

A module of commands declares options, which needs few imports, and does work, which needs many. The
imports for the work are at the top of the module, but under a condition:

    if deferral.LOADED:
        from arco.cli import render

Wherever such a module is imported, that is an import like any other. Only `servo` itself
begins with `defer`: help, completion and wrong options then never import what stands
there. Before a command is called, `load` executes those imports in its module, and in
the modules that it uses which were imported without them.
"""

from __future__ import annotations

import gc
import inspect
import re
import sys
from types import ModuleType

LOADED = True
_deferred: set[str] = set()
"""Modules that were imported without the imports for their work."""
_BLOCK = re.compile(r"^if deferral\.LOADED:\n((?:[ ].*\n|\n)+)", re.MULTILINE)


def defer() -> None:
    """From here on, modules are imported without the imports for their work."""
    global LOADED
    LOADED = False


def load(name: str) -> None:
    """Execute the deferred imports of a module. Later imports are not deferred.

    Loaded modules stay until the process ends, so the garbage collector ignores them: tracking them
    would take a tenth of the time of a run of small tasks.
    """
    global LOADED
    was_loaded, LOADED = LOADED, True
    if not was_loaded:
        _deferred.update(each for each in sys.modules if each.startswith("arco.cli."))
    waiting = {name} & _deferred
    while waiting:
        module = sys.modules[waiting.pop()]
        _deferred.discard(module.__name__)
        _execute_imports(module)
        waiting |= _homes(module) & _deferred
    if not was_loaded:
        gc.freeze()


def _execute_imports(module: ModuleType) -> None:
    for block in _BLOCK.findall(inspect.getsource(module)):
        exec(compile(f"if True:\n{block}", inspect.getfile(module), "exec"), vars(module))


def _homes(module: ModuleType) -> set[str]:
    """The modules that it uses, by themselves or by their functions and classes."""
    return {
        each.__name__ if isinstance(each, ModuleType) else str(getattr(each, "__module__", ""))
        for each in vars(module).values()
    }
