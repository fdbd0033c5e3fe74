"""`docs/reference/cli.md`, from the tree of commands.

    python -m tests.golden.cli_reference > docs/reference/cli.md

`tests/e2e/test_cli_reference.py` fails while the page differs from the commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer.main

from arco.cli import app
from arco.cli.exit_codes import BROKEN_PIPE, BY_KIND, DIFFERENT, INTERNAL, INTERRUPTED

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"

GROUPS: Final = {
    "Projects and deployments": ("init", "validate", "deploy", "deployments", "rollback"),
    "Runs": ("plan", "run", "runs", "logs"),
    "Automation": (
        "schedules",
        "sensors",
        "automation",
        "backfill",
        "requests",
        "freshness",
        "notifications",
    ),
    "Limits": ("limits", "pause", "resume"),
    "Data": (
        "show",
        "code",
        "partitions",
        "compare",
        "checks",
        "quarantine",
        "schema",
        "contracts",
        "lineage",
        "ingest",
        "pii",
        "costs",
        "gc",
    ),
    "Status and explanations": ("status", "explain", "health", "recommend", "diff"),
    "The catalog": ("assets", "search", "catalog"),
    "Servers": ("dev", "orchestrator", "worker", "serve"),
    "Security": ("auth", "roles", "audit"),
    "Maintenance": ("admin",),
    "This installation": ("doctor", "version"),
}
COMMON: Final = ("store", "tenant", "workspace", "json", "wide", "debug")
"""Options of every command, which are described once."""

MEANINGS: Final = {
    "invalid": "the request is invalid: an option, a selection, a project",
    "not_found": "the object does not exist",
    "denied": "permission denied by the store, the API or the machine",
    "conflict": "a concurrent change, or the command was refused",
    "unavailable": "the store, Spark or another service cannot be reached",
    "fenced": "a newer attempt has taken over",
    "corrupt": "a stored object is damaged",
}

INTRODUCTION: Final = """\
# The `servo` command

`servo COMMAND --help` shows the same text with an example. If the scripts of Python are not on the
path, use `python -m servo`. This page is generated from the commands:
`python -m tests.golden.cli_reference > docs/reference/cli.md`.
"""

OUTPUT: Final = """\
## Output

Tables fit the terminal: columns wrap and, if that is not enough, each row becomes a block of
lines. In a pipe, or with `--wide`, each row is one line. `NO_COLOR` turns colours off.
`--json` prints one JSON document on stdout; errors are then JSON on stderr:
`{"error": {"kind": …, "message": …, "hint": …}}`.

## Partitions

`-p` takes `date=2025-01-01`, `date=2025-01-01,2025-01-05`, `date=2025-01-01..2025-01-31` (both ends
included), `date=2025-01-01..`, `date=latest`, `date=all` and `region=eu`. A dimension without
`-p` defaults to its last complete period or, if it is not a time dimension, to all its values;
`servo plan` and `servo run` show the default. Keys of dynamic dimensions are added with
`servo partitions add`.

## Completion

`servo --install-completion` installs completion for the shell that runs it (bash, zsh, fish or
PowerShell); start a new shell afterwards. `servo --show-completion` prints the script instead.
"""


def page() -> str:
    root = typer.main.get_command(app.app)
    parts = [INTRODUCTION, _common(root), OUTPUT, _exit_codes()]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _described(_children(root)[name], ("servo", name))
    missing = set(_children(root)) - {name for names in GROUPS.values() for name in names}
    assert not missing, f"in no group of the reference: {missing}"
    return "\n".join(parts)


def _children(command: Any) -> dict[str, Any]:
    children: dict[str, Any] = getattr(command, "commands", {})
    return children


def _described(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    if _children(command):
        yield f"### `{' '.join(words)}`\n\n{_text(command)}\n"
        for name, child in _children(command).items():
            yield from _described(child, (*words, name))
        return
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([*words, *(_placeholder(argument) for argument in arguments)])
    yield f"### `{usage}`\n\n{_text(command)}\n"
    own = [option for option in options if option.name not in COMMON]
    rows = [
        *((f"`{_placeholder(each)}`", each.help or "") for each in arguments),
        *((_option(each), _help(each)) for each in own),
    ]
    if rows:
        yield _table(rows)
    yield f"```sh\n{_example(command)}\n```\n"


def _common(root: Any) -> str:
    plan = _children(root)["plan"]
    rows = [(_option(p), _help(p)) for p in plan.params if p.name in COMMON]
    intro = "## Options of every command\n\nBrackets contain the environment variable of the option"
    return f"{intro} and the default.\n\n{_table(rows)}"


def _exit_codes() -> str:
    rows = [
        ("0", "the command succeeded"),
        (
            str(DIFFERENT),
            "negative result: a run failed or has held outputs, or problems were found",
        ),
        *((str(code), f"{MEANINGS[kind]} (`{kind}`)") for kind, code in BY_KIND.items()),
        (str(INTERNAL), "a bug in Arco; `--debug` shows the traceback"),
        (str(INTERRUPTED), "interrupted with Ctrl-C"),
        (str(BROKEN_PIPE), "the output pipe was closed"),
    ]
    return f"## Exit codes\n\n{_table(rows)}"


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [f"| {name} | {_escaped(text)} |" for name, text in rows]
    return "\n".join(["| | |", "|---|---|", *lines, ""])


def _escaped(text: str) -> str:
    return re.sub(r"[*|<\[]", r"\\\g<0>", text)


def _text(command: Any) -> str:
    text, _, _ = command.help.partition("\b")
    return _escaped(text.strip())


def _example(command: Any) -> str:
    _, _, example = command.help.partition("\b")
    lines = [line.strip() for line in example.strip().splitlines()[1:]]
    return "\n".join(lines)


def _placeholder(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    several = "..." if argument.nargs == -1 else ""
    return f"{name}{several}" if argument.required else f"[{name}{several}]"


def _option(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {option.metavar or ''}".rstrip()


def _help(option: Any) -> str:
    default = option.default
    text = option.help or ""
    if option.required:
        return f"{text} Required."
    shown = not option.is_flag and option.show_default and default not in (None, "")
    return f"{text} Default: `{getattr(default, 'value', default)}`." if shown else text


if __name__ == "__main__":
    print(page(), end="")
