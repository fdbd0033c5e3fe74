"""The reference of what users import, from signatures and docstrings.

`python -m tests.golden.sdk_reference > docs/reference/sdk.md` writes the page; a test compares it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import servo
import servo.testing
from servo.asset import AssetSettings, CommonSettings

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "sdk.md"
GROUPS: Final = {
    "Assets": (
        "asset",
        "sql_asset",
        "column",
        "namespace",
        "AssetDefinition",
        "SqlAssetDefinition",
    ),
    "Inside a function": ("AssetContext", "AssetIn", "AssetOut", "In"),
    "Partitions": ("hourly", "daily", "weekly", "monthly", "static", "dynamic", "tenant"),
    "Mappings between partitions": (
        "identity",
        "window",
        "time_window",
        "latest",
        "all_upstream",
        "by_dimension",
    ),
    "Checks": (
        "row_count",
        "row_count_change",
        "not_null",
        "unique",
        "in_range",
        "accepted_values",
        "matches",
        "references",
        "freshness",
        "schema_is",
        "expression",
        "check",
    ),
    "Policies": ("Gating", "Retry", "Resources", "Retention", "Freshness", "SLA", "Compatibility"),
    "Automation": ("schedule", "eager", "on_cron", "on_missing"),
    "Sensors": (
        "sensor",
        "file_sensor",
        "webhook_sensor",
        "asset_sensor",
        "SensorContext",
        "SensorResult",
        "RunRequest",
        "SensorFile",
        "AssetVersion",
    ),
    "Contracts and notifications": ("contract", "notify"),
    "Errors": ("Error", "Invalid", "Cancelled"),
}
INTRODUCTION: Final = """\
# The Python SDK

What `from servo import …` offers, and `servo.testing`. This page is generated from the code:
`python -m tests.golden.sdk_reference > docs/reference/sdk.md`. The pages about
[projects](project.md), [partitions](partitions.md), [checks](checks.md), [retries](retries.md),
[configuration](configuration.md) and [secrets](secrets.md) explain the same by topic.
"""


def page() -> str:
    listed = {name for names in GROUPS.values() for name in names}
    assert listed == set(servo.__all__), listed ^ set(servo.__all__)
    parts = [INTRODUCTION]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [_described(name, getattr(servo, name)) for name in names]
    parts.append("## servo.testing\n")
    parts += [_described(name, getattr(servo.testing, name)) for name in servo.testing.__all__]
    return "\n".join(parts)


def _described(name: str, value: Any) -> str:
    parts = [f"### {name}\n"]
    if inspect.isclass(value):
        parts += _class_parts(name, value)
    elif callable(value):
        parts.append(_signature(name, value))
        parts.append(_prose(inspect.getdoc(value)))
        if name == "asset":
            parts.append("Settings of `asset`, and of `sql_asset` except for the first two:\n")
            parts.append(_table([*_members(AssetSettings), *_members(CommonSettings)]))
    else:
        parts.append(f"```text\n{name}: {type(value).__name__}\n```\n")
        parts.append(_prose(type(value).__doc__))
    return "\n".join(part for part in parts if part)


def _class_parts(name: str, cls: type) -> Iterator[str]:
    if not issubclass(cls, Exception) and not name.endswith("Definition"):
        yield _signature(name, cls)
    yield _prose(cls.__doc__)
    members = list(_members(cls))
    if members:
        yield _table(members)


def _table(members: Sequence[tuple[str, str]]) -> str:
    rows = [f"| `{member}` | {_cell(text)} |" for member, text in members]
    return "\n".join(["| | |", "|---|---|", *rows, ""])


def _members(cls: type) -> Iterator[tuple[str, str]]:
    """Fields with the text below them, properties and methods with their first paragraph."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    for at, node in enumerate(definition.body):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                after = definition.body[at + 1] if at + 1 < len(definition.body) else None
                text = ""
                if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                    text = str(after.value.value)
                yield name, text
            case ast.FunctionDef(name=name) if not name.startswith("_"):
                is_property = any("property" in ast.unparse(d) for d in node.decorator_list)
                yield (name if is_property else f"{name}()"), ast.get_docstring(node) or ""


def _signature(name: str, value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    empty = inspect.Parameter.empty
    parts = []
    is_keyword = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind == parameter.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        text = str(parameter).partition(":")[0].partition("=")[0]
        annotation = parameter.annotation
        if annotation is not empty:
            named = (
                annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
            )
            text += f": {_short(named)}"
        if parameter.default is not empty:
            text += f" = {_default(parameter.default)}"
        parts.append(text)
    if not parts:
        return f"```text\n{name}()\n```\n"
    lines = "".join(f"    {part},\n" for part in parts)
    return f"```text\n{name}(\n{lines})\n```\n"


def _short(annotation: str) -> str:
    return re.sub(
        r"\b(?:servo|collections|typing|datetime|decimal|pathlib)(?:\.\w+)*\.(?=\w)", "", annotation
    )


def _default(value: object) -> str:
    text = repr(value)
    return "…" if " at 0x" in text or len(text) > 60 else text


def _prose(text: str | None) -> str:
    """A docstring as Markdown: what is indented is code."""
    return f"{inspect.cleandoc(text)}\n" if text else ""


def _cell(text: str) -> str:
    first = inspect.cleandoc(text).partition("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
