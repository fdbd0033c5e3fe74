"""The tree of commands, and the one place where errors end."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from arco.cli import (
    admin_compact,
    admin_copy,
    admin_init,
    admin_log,
    admin_pins,
    admin_rejected,
    admin_snapshot,
    admin_sql,
    admin_upkeep,
    catalog_asset,
    catalog_column,
    catalog_namespace,
)
from arco.cli.failures import INTERRUPTED, Failure, failure_of, report, show_traceback
from arco.cli.options import group
from arco.errors import Error

app = group("servo", "Arco from the command line: a data platform that lives in files.")

admin = group("admin", "Look after a workspace: its log, its state, its files.")
for module in (
    admin_init,
    admin_snapshot,
    admin_sql,
    admin_upkeep,
    admin_copy,
    admin_pins,
    admin_compact,
    admin_rejected,
):
    module.register(admin)
admin.add_typer(admin_log.app)

catalog = group("catalog", "Namespaces, assets and columns: change them, read them.")
for section in (catalog_namespace, catalog_asset, catalog_column):
    catalog.add_typer(section.app)

app.add_typer(admin)
app.add_typer(catalog)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"servo {version('arco')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or bool(os.environ.get("ARCO_DEBUG"))
    if not debug:
        warnings.simplefilter("ignore")
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    try:
        code: Any = app(given, prog_name="servo", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except typer.Abort:
        return INTERRUPTED
    except typer.TyperException as error:
        return report(_usage(error), as_json="--json" in given, color=_color())
    except Exception as error:
        if debug:
            show_traceback(error)
        if not isinstance(error, Error) and isinstance(error, MemoryError):
            raise
        return report(failure_of(error), as_json="--json" in given, color=_color())


def _usage(error: typer.TyperException) -> Failure:
    context = getattr(error, "ctx", None)
    path = "servo" if context is None else context.command_path
    return Failure("invalid", error.format_message(), f"see {path} --help")


def _color() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")
