"""Settings that all tests share."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.backends import Servers
from tests.kit.depth import examples
from tests.kit.scratch import use_memory

use_memory()

# A commit costs milliseconds, and a machine under test is busy: time limits for
# single examples would only find out how busy.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "default", deadline=None, suppress_health_check=_SLOW, max_examples=examples(50)
)
settings.register_profile("ci", parent=settings.get_profile("default"), print_blob=True)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them all
# the processes that tests start and then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).parent
_NOT_COVERED = re.compile(r"NOT COVERED: .*")


_LAST = ("property", "simulation", "conformance", "architecture", "typing", "unit")
"""Folders whose tests are short, in the order in which they come after the others."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each file without groups to one process, where its fixtures are made once.

    Long groups come first: a process that is left with one at the end keeps the others waiting.
    """
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(f"{_folder(item)}/{item.path.stem}"))
    items.sort(
        key=lambda item: _LAST.index(folder) + 1 if (folder := _folder(item)) in _LAST else 0
    )


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(_ROOT).parts[0]


def pytest_collection_finish() -> None:
    """Look for garbage less often, and not among what stays: it takes a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # libraries look at their end for objects that are left


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines: set[str] = set()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
        lines.update(_NOT_COVERED.findall(reason))
    for line in sorted(lines):
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with contextlib.ExitStack() as running:
        yield Servers(running)
