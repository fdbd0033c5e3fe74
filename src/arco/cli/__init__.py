"""The `servo` command.

    app.py        the tree of commands, and what becomes of errors
    options.py    what every command takes, declared once
    session.py    what every command is given
    project.py    `servo validate`, `deploy`, `deployments`, `rollback`
    run.py        `servo plan`, `servo run`; live.py shows a run as it goes
    runs.py       `servo runs`
    serve.py      `servo orchestrator`, `servo worker`
    admin_*.py    `servo admin`
    catalog_*.py  `servo catalog`

Modules are cheap to import: what is heavy (pyarrow, DuckDB, obstore, Spark, and
rich too) is imported inside the commands, so that `servo --help` answers at once.
"""

from __future__ import annotations

from arco.cli.app import main

__all__ = ["main"]
