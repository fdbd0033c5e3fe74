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
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from arco.cli.command_table import PARTS, TOP_COMMANDS
from arco.cli.exit_codes import INTERRUPTED
from arco.cli.options import group, help_without_command

HELP = """Arco from the command line: a data platform on object storage.

A new project: servo init sales, then cd sales, then servo dev.
"""


class LazyCommands(dict[str, Any]):
    """The commands of `servo`, by name. The module of one is imported when it is looked up."""

    def __init__(self) -> None:
        super().__init__((command.name, None) for command in TOP_COMMANDS)
        self._modules = {command.name: command.module for command in TOP_COMMANDS}

    def __getitem__(self, name: str) -> Any:
        if super().__getitem__(name) is None:
            self.update(commands_of(self._modules[name]))
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class TopGroup(TyperGroup):
    """`servo` itself: its help is printed from the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = LazyCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        lines = [TyperCommand(command.name, help=command.help) for command in TOP_COMMANDS]
        TyperGroup(commands=lines).format_commands(ctx, formatter)


@functools.cache
def commands_of(name: str) -> dict[str, Any]:
    """The commands that a module adds to `servo`: functions, a group, or both."""
    module = import_module(f"arco.cli.{name}")
    app = group("servo", HELP)
    if hasattr(module, "register"):
        module.register(app)
    if hasattr(module, "app"):
        for part in PARTS.get(name, ()):
            import_module(f"arco.cli.{part}").register(module.app)
        app.add_typer(module.app)
    return dict(typer.main.get_group(app).commands)


app = typer.Typer(name="servo", cls=TopGroup, rich_markup_mode=None, invoke_without_command=True)


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

    It exits without finalizing libraries: Arrow's threads may abort a process that exits right
    after a read (apache/arrow#34314). Everything that needs closing was closed before.
    """
    _own_streams()
    code = run(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(
            OSError, ValueError
        ):  # the reader has ended, or the stream is closed
            stream.flush()
    os._exit(code)


def _own_streams() -> None:
    """Write to copies of the descriptors of stdout and stderr.

    `servo run` calls user code in this process. If that code closes descriptor 1, our output would
    fail, or go to the next file with that number.
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


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code."""
    debug = "--debug" in arguments or bool(os.environ.get("ARCO_DEBUG"))
    if not debug:
        warnings.simplefilter("ignore")
    logging.basicConfig(format="%(levelname)s: %(message)s", stream=sys.stderr)
    try:
        code = tree()(list(arguments), prog_name="servo", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except typer.TyperException as error:
        return _report(error, as_json="--json" in arguments)
    except Exception as error:
        if debug:
            traceback.print_exception(error)
        return _report(error, as_json="--json" in arguments, at=_generation_option(arguments))


def _generation_option(given: Sequence[str]) -> str:
    """The option that chooses an older generation, if one is given."""
    names = (word.partition("=")[0] for word in given)
    options = ("--generation", "-g", "--as-of", "--as-of-run")
    return next((name for name in names if name in options), "")


def _report(error: Exception, *, as_json: bool, at: str = "") -> int:
    from arco.cli.failures import ShownError, failure_of, report

    failure = failure_of(error)
    if at and failure.kind == "not_found" and failure.hint:
        failure.hint = f"{failure.hint}; or leave out {at}: then the newest generation is read"
    if isinstance(error, typer.TyperException):
        context = getattr(error, "ctx", None)
        path = "servo" if context is None else context.command_path
        message = error.format_message().replace("Value error, ", "")
        failure = ShownError("invalid", message, f"see {path} --help")
    color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return report(failure, as_json=as_json, color=color)
