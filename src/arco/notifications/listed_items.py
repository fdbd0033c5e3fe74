"""A cache of the parsed items of pending notifications.

Thousands of failures of one commit go into the same few notifications, each with up to `LISTED`
items. The items of the last text of a notification are cached, so that the next item costs as much
as one item. An entry is used only for exactly its text, and is never changed, so the fold stays
pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from arco.notifications.tables import NotificationItem, NotificationRow, decode_items

replace = msgspec.structs.replace
LISTED: Final = 50
"""Maximum of subjects that a notification names."""
KEPT: Final = 1_000


class _ListedItems(NamedTuple):
    text: str
    items: list[NotificationItem]
    pieces: list[str]
    """Each item as JSON."""
    places: dict[str, int]
    """By subject, its last item."""


_cache: dict[tuple[str, str], _ListedItems] = {}


def with_item(row: NotificationRow, item: NotificationItem, *, repeats: bool) -> NotificationRow:
    """Add an item; for a subject that is listed already, increase its count."""
    listed = _listed(row)
    items, pieces, places = listed.items, listed.pieces, listed.places
    place = places.get(item.subject)
    if place is not None and items[place].event == item.event:
        counted = replace(item, count=items[place].count + item.count)
        items, pieces = items.copy(), pieces.copy()
        items[place], pieces[place] = counted, _piece(counted)
        return replace(row, items=_keep(row, items, pieces, places).text)
    if repeats:
        return row  # of an alert that an earlier notification told of, or of one beyond the list
    if len(items) < LISTED:
        places = places | {item.subject: len(items)}
        listed = _keep(row, [*items, item], [*pieces, _piece(item)], places)
        row = replace(row, items=listed.text)
    return replace(row, subjects=row.subjects + 1)


def _listed(row: NotificationRow) -> _ListedItems:
    listed = _cache.get((row.rule_id, row.notification_id))
    if listed is not None and listed.text == row.items:
        return listed
    items = decode_items(row.items)
    places = {item.subject: place for place, item in enumerate(items)}
    return _keep(row, items, [_piece(item) for item in items], places)


def _keep(
    row: NotificationRow, items: list[NotificationItem], pieces: list[str], places: dict[str, int]
) -> _ListedItems:
    text = f"[{','.join(pieces)}]"
    if len(_cache) >= KEPT:
        _cache.clear()
    listed = _ListedItems(text, items, pieces, places)
    _cache[row.rule_id, row.notification_id] = listed
    return listed


def _piece(item: NotificationItem) -> str:
    return msgspec.json.encode(item).decode()
