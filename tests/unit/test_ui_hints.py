"""What the web page tells people to type exists: commands, and functions of the SDK."""

from __future__ import annotations

import ast
import inspect
import re
import shlex

import servo
from tests.architecture.source import ROOT
from tests.unit.test_docs_reference import check_command

HINTS = [
    (file.name, text)
    for file in sorted((ROOT / "ui" / "src").rglob("*.tsx"))
    for text in re.findall(r"<code>([^<]*)</code>", file.read_text("utf-8"))
]


def test_commands_of_the_page_exist_and_take_these_options() -> None:
    commands = [
        (file, shlex.split(part.replace("{asset}", "sales.orders"))[1:])
        for file, text in HINTS
        for part in text.split("&&")
        if part.strip().startswith("servo ")
    ]
    assert len(commands) > 15
    wrong = []
    for file, words in commands:
        try:
            check_command(words)
        except Exception as error:
            wrong.append(f"{file}: servo {shlex.join(words)}: {error}")
    assert wrong == []


def test_code_of_the_page_calls_functions_of_the_sdk_with_their_parameters() -> None:
    calls = [(file, text) for file, text in HINTS if re.fullmatch(r"\w+\(.*\)", text)]
    assert len(calls) > 2
    for file, text in calls:
        call = ast.parse(text.replace("…", "None"), mode="eval").body
        assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), (file, text)
        given = {each.arg: None for each in call.keywords if each.arg}
        signature = inspect.signature(getattr(servo, call.func.id))
        signature.bind(*([None] * len(call.args)), **given)
