"""Answers as HTML, for notebooks. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple


class ChainLink(NamedTuple):
    text: str
    commands: tuple[str, ...]
    """Suggested to remedy it."""


def as_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(value))}</td>' for value in row)}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_chain(
    title: str,
    status: str,
    summary: str,
    links: Sequence[ChainLink],
    observations: Sequence[ChainLink],
) -> str:
    """Nested lists: each link inside of what it explains."""
    head = f"<b>{escape(title)}</b> {escape(status)}<p>{escape(summary)}</p>"
    chain = ""
    for link in reversed(links):
        chain = f"<ul><li>{_item(link)}{chain}</li></ul>"
    others = "".join(f"<li>{_item(each)}</li>" for each in observations)
    return head + chain + (f"<ul>{others}</ul>" if others else "")


def _item(link: ChainLink) -> str:
    commands = "".join(f"<br><code>{escape(command)}</code>" for command in link.commands)
    return f"{escape(link.text)}{commands}"
