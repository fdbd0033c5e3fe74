"""The options that all commands share.

`command` registers a function as a command. The function's first parameter is
the `Session`; the options that choose a workspace and an output, and those named
in `takes`, are added to the ones it declares itself.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.exit_codes import BROKEN_PIPE

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session, close

Handler = Callable[..., None]

_COMMON: dict[str, Any] = {
    "store": Annotated[
        str | None,
        typer.Option(metavar="URL", help="The store: a path, s3://, gs:// or az://. [ARCO_STORE]"),
    ],
    "tenant": Annotated[
        str | None, typer.Option(metavar="NAME", help="The storage tenant. [ARCO_TENANT; default]")
    ],
    "workspace": Annotated[
        str | None, typer.Option(metavar="NAME", help="The workspace. [ARCO_WORKSPACE; main]")
    ],
    "json": Annotated[bool, typer.Option("--json", help="Print JSON.")],
    "wide": Annotated[
        bool, typer.Option("--wide", help="Print whole lines, however wide the terminal is.")
    ],
    "debug": Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. [ARCO_DEBUG]")
    ],
}
_GROUPS: dict[str, dict[str, Any]] = {
    "at": {
        "generation": Annotated[
            int | None,
            typer.Option("--generation", "-g", min=0, metavar="N", help="Read this generation."),
        ],
        "as_of": Annotated[
            str | None,
            typer.Option(
                metavar="TIME",
                help="Read the generation that was current at this time: 2026-01-31T12:00Z "
                "(UTC), or 15m, 2h, 3d ago.",
            ),
        ],
    },
    "actor": {
        "actor": Annotated[
            str | None,
            typer.Option(
                metavar="NAME", help="The actor, stored in the log. [ARCO_ACTOR; the OS user]"
            ),
        ]
    },
    "key": {
        "idempotency_key": Annotated[
            str,
            typer.Option(
                metavar="KEY", help="Repeating the command with the same key changes nothing."
            ),
        ]
    },
}
_DEFAULTS = {"json": False, "wide": False, "debug": False, "idempotency_key": ""}


def days(help: str) -> Any:
    """An option that is a number of days."""
    return typer.Option(min=0, max=36_500, metavar="DAYS", help=help)


Limit = Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N.")]
Partition = Annotated[
    str | None, typer.Option("--partition", "-p", metavar="KEY", help="Only this partition.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Reason, stored in the log.")]
Remote = Annotated[
    bool, typer.Option("--remote", help="Run on `servo orchestrator` and `servo worker` processes.")
]
Slots = Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of concurrent tasks.")]


def group(name: str, help: str) -> typer.Typer:
    """A group of commands."""
    app = typer.Typer(name=name, rich_markup_mode=None, invoke_without_command=True)
    app.callback(help=help)(help_without_command)
    return app


def help_without_command(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


def command(
    app: typer.Typer,
    name: str,
    *,
    example: str,
    takes: Sequence[str] = (),
    before: Callable[[], None] = lambda: None,
) -> Callable[[Handler], Handler]:
    """Register a function as the command `name` of `app`. Its docstring is the help.

    `before` is called before what the command needs is imported.
    """

    def register(function: Handler) -> Handler:
        added = {k: v for each in takes for k, v in _GROUPS[each].items()} | _COMMON
        runner = _runner(function, frozenset(added), before)
        runner.__signature__ = _signature(function, added)  # type: ignore[attr-defined]
        app.command(name, help=_help(function, example))(runner)
        return function

    return register


def _runner(function: Handler, added: frozenset[str], before: Callable[[], None]) -> Handler:
    def run(**given: Any) -> None:
        before()
        deferral.load(function.__module__)
        session = Session(**{name: given.pop(name) for name in added})
        render.print_wide(session.wide)
        try:
            function(session, **given)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read us has seen enough. Nothing is left to flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        finally:
            close()

    run.__name__ = function.__name__
    return run


def _signature(function: Handler, added: dict[str, Any]) -> inspect.Signature:
    """Of what typer gives; not of the session, whose class may not be imported yet."""
    own = list(inspect.signature(function).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        each.replace(kind=keyword, annotation=eval(each.annotation, function.__globals__))
        for each in own
    ]
    parameters += [
        inspect.Parameter(name, keyword, default=_DEFAULTS.get(name), annotation=annotation)
        for name, annotation in added.items()
    ]
    return inspect.Signature(parameters)


def _help(function: Handler, example: str) -> str:
    lines = "\n".join(f"  {line}" for line in example.strip().split("\n"))
    title = "Examples" if "\n" in example.strip() else "Example"
    return f"{inspect.getdoc(function)}\n\n\b\n{title}:\n{lines}"
