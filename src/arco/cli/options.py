"""The options that all commands share.

`command` registers a function as a command. The function's first parameter is
the `Session`; the options that choose a workspace and an output, and those named
in `takes`, are added to the ones it declares itself. A parameter whose type is an
`OptionGroup` stands for the options that are the fields of that type.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, get_type_hints

import typer

from arco.cli import deferral
from arco.cli.exit_codes import BROKEN_PIPE

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session, close
    from arco.errors import Invalid

CommandFunction = Callable[..., None]


class OptionGroup:
    """Options that several commands declare: a frozen dataclass, with an option for each field."""


def option(metavar: str, help: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, **settings)


def flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help)


def argument(metavar: str, help: str, **settings: Any) -> Any:
    return typer.Argument(metavar=metavar, help=help, **settings)


_COMMON: dict[str, Any] = {
    "store": Annotated[
        str | None, option("URL", "The store: a path, s3://, gs:// or az://. [ARCO_STORE]")
    ],
    "tenant": Annotated[str | None, option("NAME", "The storage tenant. [ARCO_TENANT; default]")],
    "workspace": Annotated[str | None, option("NAME", "The workspace. [ARCO_WORKSPACE; main]")],
    "json": Annotated[bool, flag("--json", "Print JSON.")],
    "wide": Annotated[bool, flag("--wide", "Do not wrap or truncate lines.")],
    "debug": Annotated[bool, flag("--debug", "Show the traceback of an error. [ARCO_DEBUG]")],
}
_GROUPS: dict[str, dict[str, Any]] = {
    "at": {
        "generation": Annotated[
            int | None, option("N", "Read this generation.", "--generation", "-g", min=0)
        ],
        "as_of": Annotated[
            str | None,
            option(
                "TIME",
                "Read the generation that was current at this time: 2026-01-31T12:00Z "
                "(UTC), or 15m, 2h, 3d ago.",
            ),
        ],
        "as_of_run": Annotated[
            str | None, option("RUN", "Read the generation at which this run's end was visible.")
        ],
    },
    "actor": {
        "actor": Annotated[
            str | None, option("NAME", "The actor, stored in the log. [ARCO_ACTOR; the OS user]")
        ]
    },
    "key": {
        "idempotency_key": Annotated[
            str, option("KEY", "Repeating the command with the same key changes nothing.")
        ]
    },
}
_DEFAULTS = {"json": False, "wide": False, "debug": False, "idempotency_key": ""}


def days(help: str) -> Any:
    """An option that is a number of days."""
    return option("DAYS", help, min=0, max=36_500)


Limit = Annotated[int, option("N", "Show at most N.", min=1)]
LineLimit = Annotated[int, option("N", "Show at most N lines.", min=1)]
OnePartition = Annotated[
    list[str] | None,
    option("NAME=VALUE", "The partition; once for each dimension.", "--partition", "-p"),
]
Partition = Annotated[str | None, option("KEY", "Only this partition.", "--partition", "-p")]
Reason = Annotated[str, option("TEXT", "Reason, stored in the log.")]
StatedReason = Annotated[str | None, option("TEXT", "Reason, stored in the log.", "--reason")]
"""One that may be left out, but not be empty: see `stated`."""
Remote = Annotated[
    bool, flag("--remote", "Run on `servo orchestrator` and `servo worker` processes.")
]
Slots = Annotated[int, option("N", "Maximum number of concurrent tasks.", min=1)]


def stated(reason: str | None) -> str:
    if reason is not None and not reason.strip():
        raise Invalid("the reason is empty", hint="say why with --reason, or leave it out")
    return reason or ""


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
    negatives: bool = False,
) -> Callable[[CommandFunction], CommandFunction]:
    """Register a function as the command `name` of `app`. Its docstring is the help.

    `negatives`: -1 is an argument, not an option. `before` is called before the deferred imports.
    """

    def register(function: CommandFunction) -> CommandFunction:
        added = {k: v for each in takes for k, v in _GROUPS[each].items()} | _COMMON
        own, groups = _own_parameters(function)
        runner = _runner(function, groups, frozenset(added), before)
        runner.__signature__ = _signature(own, added)  # type: ignore[attr-defined]
        settings = {"ignore_unknown_options": True} if negatives else None
        app.command(name, help=_help(function, example), context_settings=settings)(runner)
        return function

    return register


def _runner(
    function: CommandFunction,
    groups: dict[str, type[OptionGroup]],
    added: frozenset[str],
    before: Callable[[], None],
) -> CommandFunction:
    def run(**arguments: Any) -> None:
        before()
        deferral.load(function.__module__)
        session = Session(**{name: arguments.pop(name) for name in added})
        for name, options in groups.items():
            arguments[name] = options(
                **{k: arguments.pop(k) for k in inspect.signature(options).parameters}
            )
        render.print_wide(session.wide)
        try:
            function(session, **arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has closed the pipe. Nothing is left to flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(BROKEN_PIPE) from None
        finally:
            close()

    run.__name__ = function.__name__
    return run


def _own_parameters(
    function: CommandFunction,
) -> tuple[list[inspect.Parameter], dict[str, type[OptionGroup]]]:
    """What a command declares itself, with the fields of its groups in place of them; the groups.

    Without the session, whose class may not be imported yet.
    """
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type[OptionGroup]] = {}
    for each in list(inspect.signature(function).parameters.values())[1:]:
        annotation = eval(each.annotation, function.__globals__)
        if isinstance(annotation, type) and issubclass(annotation, OptionGroup):
            groups[each.name] = annotation
            types = get_type_hints(annotation, include_extras=True)
            fields = inspect.signature(annotation).parameters.values()
            parameters += [field.replace(annotation=types[field.name]) for field in fields]
        else:
            parameters.append(each.replace(annotation=annotation))
    return parameters, groups


def _signature(own: list[inspect.Parameter], added: dict[str, Any]) -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(kind=keyword) for each in own]
    parameters += [
        inspect.Parameter(name, keyword, default=_DEFAULTS.get(name), annotation=annotation)
        for name, annotation in added.items()
    ]
    return inspect.Signature(parameters)


def _help(function: CommandFunction, example: str) -> str:
    lines = "\n".join(f"  {line}" for line in example.strip().split("\n"))
    title = "Examples" if "\n" in example.strip() else "Example"
    return f"{inspect.getdoc(function)}\n\n\b\n{title}:\n{lines}"
