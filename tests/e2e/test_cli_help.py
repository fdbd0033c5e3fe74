"""Help is quick, complete, and says what it said before.

After a change that is meant: `ARCO_UPDATE_GOLDEN=1 pytest tests/e2e/test_cli_help.py
tests/e2e/test_cli_golden.py`, then look at the diff of `tests/golden/cli`.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from arco.cli import app
from arco.cli.command_table import TOP_COMMANDS
from tests.e2e.conftest import Servo
from tests.e2e.golden import check_golden

HEAVY = ("pyarrow", "duckdb", "obstore", "pyspark", "pandas", "numpy", "rich")


def commands() -> Iterator[tuple[str, ...]]:
    """Every command, groups included, by its words."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*words, name))

    yield from walk(typer.main.get_command(app.app), ())


def group_of(words: tuple[str, ...]) -> str:
    """The golden file that a command's help is kept in."""
    if not words:
        return ""
    return words[0] if words[0] in ("admin", "catalog") else "flow"


def test_help_imports_nothing_heavy(servo: Servo) -> None:
    for words in ((), ("admin", "sql"), ("catalog", "asset", "create")):
        command = [sys.executable, "-X", "importtime", "-m", "arco.cli", *words, "--help"]
        done = subprocess.run(command, env=servo.env, capture_output=True, text=True, check=True)
        imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        assert "arco.cli.app" in imported
        assert {name for name in imported if name.partition(".")[0] in HEAVY} == set()


@pytest.mark.parametrize("group", ["", "admin", "catalog", "flow"])
def test_help_texts(
    group: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = []
    for words in commands():
        if group_of(words) == group:
            assert app.run([*words, "--help"]) == 0
            texts.append(capsys.readouterr().out)
    check_golden(f"help_{group or 'servo'}.txt", "\n".join(texts))


def test_every_command_has_an_example_and_speaks_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = set(commands())
    leaves = [words for words in tree if not any(o[:-1] == words for o in tree)]
    assert len(leaves) > 30
    for words in leaves:
        app.run([*words, "--help"])
        text = capsys.readouterr().out
        assert "Example" in text, words
        assert f"servo {' '.join(words)}" in text.partition("Example")[2], words
        assert "--json" in text, words


def test_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["admin"]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_table_of_commands_says_what_their_modules_say() -> None:
    of_modules = {
        (name, module): command.get_short_help_str(limit=200)
        for module in dict.fromkeys(each.module for each in TOP_COMMANDS)
        for name, command in app.commands_of(module).items()
    }
    assert {(each.name, each.module): each.help for each in TOP_COMMANDS} == of_modules


def test_help_of_servo_imports_no_module_of_commands(servo: Servo) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "arco.cli", "--help"]
    done = subprocess.run(command, env=servo.env, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert imported & {f"arco.cli.{each.module}" for each in TOP_COMMANDS} == set()
