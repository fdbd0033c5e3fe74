"""`servo admin`: its commands are in the modules `admin_*`."""

from __future__ import annotations

from arco.cli import (
    admin_compact,
    admin_copy,
    admin_diff,
    admin_init,
    admin_log,
    admin_pins,
    admin_rejected,
    admin_snapshot,
    admin_sql,
    admin_upkeep,
)
from arco.cli.options import group

app = group("admin", "Maintain a workspace: its log, tables and files.")
for module in (
    admin_init,
    admin_snapshot,
    admin_diff,
    admin_sql,
    admin_upkeep,
    admin_copy,
    admin_pins,
    admin_compact,
    admin_rejected,
):
    module.register(app)
app.add_typer(admin_log.app)
