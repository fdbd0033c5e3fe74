"""Answers as HTML, for notebooks. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arco.answers.shapes import Cause


def as_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_chain(
    title: str, status: str, summary: str, causes: Sequence[Cause], observations: Sequence[Cause]
) -> str:
    """Nested lists: each cause inside of what it explains."""
    head = f"<b>{escape(title)}</b> {escape(status)}<p>{escape(summary)}</p>"
    chain = ""
    for cause in reversed(causes):
        chain = f"<ul><li>{_cause(cause)}{chain}</li></ul>"
    others = "".join(f"<li>{_cause(each)}</li>" for each in observations)
    return head + chain + (f"<ul>{others}</ul>" if others else "")


def _cause(cause: Cause) -> str:
    commands = "".join(
        f"<br><code>{escape(hint.command)}</code>" for hint in cause.remedies if hint.command
    )
    return f"{escape(cause.text)}{commands}"
