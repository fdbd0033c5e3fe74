"""The platform: a log on object storage, the state folded from it, and its readers.

`arco.open` opens a workspace for reading, from a program or a notebook.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from arco.open_workspace import OpenWorkspace

__all__ = ["open"]


def open(
    store: str | None = None,
    *,
    tenant: str | None = None,
    workspace: str | None = None,
    generation: int | None = None,
    as_of: datetime | str | None = None,
) -> OpenWorkspace:
    """A workspace, to read data and answers from.

    What is not given comes from ARCO_STORE, ARCO_TENANT and ARCO_WORKSPACE, or from `arco.toml`,
    as for the `servo` command. Everything is read at the newest generation, or at the one that
    is given by its number or by a time (`"2026-01-31T12:00Z"`, `"2h"` ago).
    """
    from arco.open_workspace import open_workspace  # noqa: PLC0415 - importing `arco` stays cheap

    return open_workspace(store, tenant, workspace, generation, as_of)
