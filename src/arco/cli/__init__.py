"""The `servo` command.

    app.py        the tree of commands, and what becomes of errors; command_table.py lists them
    options.py    what every command takes, declared once
    session.py    what every command is given
    project.py    `servo validate`, `deploy`, `deployments`, `rollback`
    run.py        `servo plan`, `servo run`; live.py shows a run as it goes
    runs.py       `servo runs`
    serve.py      `servo orchestrator`, `servo worker`
    admin_*.py    `servo admin`
    catalog_*.py  `servo catalog`

`servo --help` answers at once: see deferral.py.
"""

from __future__ import annotations

from typing import NoReturn

from arco.cli import deferral


def main() -> NoReturn:
    """What the process `servo` does."""
    deferral.defer()
    from arco.cli import app

    app.main()
