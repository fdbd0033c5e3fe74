"""The project in a folder, discovered by another process, which may exit, crash or freeze."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from arco.clock import Clock
from arco.errors import Invalid
from arco.tasks import private
from arco.worker import discovery_process
from arco.worker.child_process import ChildEnded, ChildProcess
from arco.worker.discovery_process import Discovered as Discovered
from arco.worker.discovery_process import Importing, Impossible, Instruction
from servo.discover import FILE
from servo.fresh_imports import is_under
from servo.project import Problem

NOTICE_S: Final = 10.0
"""An import that takes this long is reported, and again after the same time."""
_HINT: Final = "a module must not do that when it is imported: move the code into a function"

OnSlow = Callable[[str, float], None]
"""Called with a module whose import takes long, and its seconds so far."""


def discovered(
    folder: Path,
    modules: Sequence[str] | None,
    project: str,
    *,
    clock: Clock,
    store_url: str = "",
    on_slow: OnSlow = lambda module, seconds: None,
) -> Discovered:
    """What `servo.discover` finds. Raises Invalid if the folder is not one.

    A module that ends the process is a problem of the project. Modules see neither keys nor the
    credentials of the store, as in a slot.
    """
    root = folder.resolve()
    instruction = Instruction(
        str(root), None if modules is None else tuple(modules), project, _reserved_names(root)
    )
    environment, _ = private.of_slot(os.environ, store_url, ())
    text = msgspec.json.encode(instruction).decode()
    importing, since = Importing("", ""), clock.monotonic()
    with ChildProcess(discovery_process.__name__, "main", text, environment) as child:
        while True:
            try:
                line = child.receive(NOTICE_S)
            except ChildEnded as ended:
                return Discovered(problems=(_problem(importing, ended),))
            if line is None:
                on_slow(importing.module or "the project", clock.monotonic() - since)
                continue
            match discovery_process.decode(line):
                case Importing() as importing:
                    since = clock.monotonic()
                case Impossible(message, hint):
                    raise Invalid(message, hint=hint)
                case Discovered() as result:
                    return result


def _reserved_names(root: Path) -> frozenset[str]:
    """Names that a module of the project cannot have: slots may have imported these too."""
    loaded = {name: module for name, module in sys.modules.copy().items() if "." not in name}
    return frozenset(name for name, module in loaded.items() if not is_under(module, root))


def _problem(importing: Importing, ended: ChildEnded) -> Problem:
    if importing.module:
        message = f"importing {importing.module}: the process {ended}"
        return Problem(importing.file, 1, message, _HINT)
    return Problem(FILE, 1, f"the process that imported the modules {ended}", _HINT)
