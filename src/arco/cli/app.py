"""The tree of commands, and the handling of all errors."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NoReturn

import typer

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
    asset_automation,
    audit,
    auth,
    auth_login,
    backfill,
    catalog_asset,
    catalog_column,
    catalog_governance,
    catalog_namespace,
    catalog_terms,
    checks,
    compare,
    contract_exchange,
    contracts,
    costs,
    data_gc,
    dev,
    dispatch_limits,
    doctor,
    explain,
    freshness,
    http_server,
    ingest,
    init,
    lineage,
    lineage_imports,
    notifications,
    partitions,
    personal,
    project,
    quarantine,
    quarantine_by_hand,
    requests,
    roles,
    run_outputs,
    runs,
    schedules,
    schemas,
    search,
    sensors,
    serve,
    show,
    snapshot_diff,
    status,
    version_history,
)
from arco.cli import run as running
from arco.cli.exit_codes import INTERRUPTED
from arco.cli.options import group, help_without_command

HELP = """Arco from the command line: a data platform that lives in files.

A new project: servo init sales, then cd sales, then servo dev.
"""
app = group("servo", HELP)

admin = group("admin", "Maintain a workspace: its log, tables and files.")
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
    module.register(admin)
admin.add_typer(admin_log.app)

catalog = group("catalog", "Show and change namespaces, assets, columns and terms.")
catalog_governance.register(catalog)
for section in (catalog_namespace, catalog_asset, catalog_column, catalog_terms):
    catalog.add_typer(section.app)

for commands in (init, dev, status, project, running):
    commands.register(app)
run_outputs.register(runs.app)
app.add_typer(runs.app)
app.add_typer(schedules.app)
app.add_typer(sensors.app)
app.add_typer(asset_automation.app)
app.add_typer(backfill.app)
app.add_typer(requests.app)
app.add_typer(notifications.app)
app.add_typer(dispatch_limits.app)
dispatch_limits.register(app)
freshness.register(app)
app.add_typer(partitions.app)
version_history.register(partitions.app)
show.register(app)
compare.register(app)
app.add_typer(checks.app)
app.add_typer(lineage.app)
lineage_imports.register(lineage.app)
app.add_typer(ingest.app)
app.add_typer(personal.app)
quarantine_by_hand.register(quarantine.app)
app.add_typer(schemas.app)
contract_exchange.register(contracts.app)
app.add_typer(contracts.app)
app.add_typer(quarantine.app)
costs.register(app)
explain.register(app)
snapshot_diff.register(app)
data_gc.register(app)
serve.register(app)
http_server.register(app)
doctor.register(app)
auth_login.register(auth.app)
app.add_typer(auth.app)
app.add_typer(roles.app)
app.add_typer(audit.app)
app.add_typer(admin)
app.add_typer(catalog)
search.register(app)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        print(f"servo {version('arco')}")
        raise typer.Exit


@app.callback(help=HELP)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    help_without_command(context)


def main() -> NoReturn:
    """Run the command that the process was started with, and end the process.

    It ends without tearing libraries down: Arrow's threads may abort a process
    that exits right after a read (apache/arrow#34314). All that needs closing has
    been closed by then.
    """
    _own_streams()
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # whoever reads us has gone, or it is closed
            stream.flush()
    os._exit(code)


def _own_streams() -> None:
    """Write to copies of the descriptors of stdout and stderr.

    `servo run` calls user code in this process. Code that closes descriptor 1 would otherwise
    have what we print fail, or go to the next file that gets that number.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        try:
            copied = os.dup(stream.fileno())
        except OSError:
            continue
        own = io.TextIOWrapper(
            open(copied, "wb"),  # noqa: SIM115 - open until the process ends
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )
        setattr(sys, name, own)


@functools.cache
def tree() -> Callable[..., Any]:
    """All commands with their options, built once in a process."""
    return typer.main.get_command(app)


def run(given: Sequence[str]) -> int:
    """Run one command; its exit code."""
    debug = "--debug" in given or bool(os.environ.get("ARCO_DEBUG"))
    if not debug:
        warnings.simplefilter("ignore")
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    try:
        code = tree()(list(given), prog_name="servo", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except typer.TyperException as error:
        return _report(error, as_json="--json" in given)
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        return _report(error, as_json="--json" in given)


def _report(error: Exception, *, as_json: bool) -> int:
    from arco.cli.failures import ShownError, failure_of, report

    failure = failure_of(error)
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        path = "servo" if context is None else context.command_path
        message = error.format_message().replace("Value error, ", "")
        failure = ShownError("invalid", message, f"see {path} --help")
    color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return report(failure, as_json=as_json, color=color)
