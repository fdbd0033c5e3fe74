"""`servo search`: finds assets by their texts."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import Limit, argument, command

if deferral.LOADED:
    from rich.text import Text

    from arco.cli import render
    from arco.cli.failures import visible
    from arco.cli.older_version import note_older_version
    from arco.cli.session import Session
    from arco.search.matches import SearchMatch
    from arco.search.reader import SearchHit, SearchReader, SearchResult


def register(app: typer.Typer) -> None:
    example = (
        "servo search customer email\n"
        "servo search sales.ord\n"
        "servo search revenue tag:tier=gold owner:ana\n"
        "servo search has:pii namespace:sales --as-of 7d\n"
        "servo search failing kind:sql"
    )
    command(app, "search", example=example, takes=["at"])(search)


def search(
    session: Session,
    query: Annotated[list[str], argument("QUERY", "Words and filters; all must match.")],
    limit: Limit = 20,
) -> None:
    """Find assets by name, column, owner, tag or text.

    Descriptions and code are searched too. Exact names come first, then prefixes, then words,
    then similar spellings. Filters: tag:tier=gold, tag:tier, tag:gold, owner:ana,
    namespace:sales, kind:sql, has:pii, stale, failing. A comma separates alternatives
    (owner:ana,bob). A filter in quotes is a word: '"stale"'.
    """
    snapshot = session.open().read.snapshot(session.at())
    result = SearchReader(snapshot).search(" ".join(query), limit=limit)
    note_older_version(session, snapshot)
    if session.json:
        render.document(result)
    else:
        _show(result)


def _show(result: SearchResult) -> None:
    for word, phrases in result.corrected.items():
        render.note(f"searched for {' and '.join(phrases)} too, which is similar to {word}")
    if not result.hits:
        render.say(f"nothing matches in generation {result.generation}")
        return
    headers = ("asset", "kind", "match", "description")
    render.show_table(headers, map(_line, result.hits), whole=["kind"])
    amount = render.count(result.total, "asset")
    matches = "matches" if result.total == 1 else "match"
    render.say(f"{amount} {matches} in generation {result.generation}", "dim")
    if result.total > len(result.hits):
        render.note(f"the best {len(result.hits)} are listed; see --limit, or add a filter")


def _line(hit: SearchHit) -> tuple[object, ...]:
    asset = Text(hit.asset, "" if hit.active else "dim")
    match = Text("\n").join(map(_highlighted, hit.matches))
    return asset, ", ".join(hit.kinds), match if match else None, hit.description or None


def _highlighted(match: SearchMatch) -> Text:
    """The field and its text, with the words of the query in bold."""
    text, at = Text(f"{match.field} ", "dim"), 0
    for start, end in match.spans:
        text.append(visible(match.text[at:start]), "not dim")
        text.append(visible(match.text[start:end]), "not dim bold")
        at = end
    return text.append(visible(match.text[at:]), "not dim")
