"""Selections: which assets a request means.

| term | means |
|---|---|
| `sales.orders`, `orders` | one asset; without its namespace if only one has that name |
| `sales.*`, `*` | all of a namespace; all there are |
| `tag:tier=gold`, `tag:tier` | assets with that tag, of any value for the second |
| `group:finance` | assets of a group |
| `+x`, `x+`, `+x+` | with all it reads, directly or not; with all that reads it; both |
| `2+x`, `x+1` | the same, at most this number of steps away |

A selection is the union of its terms, less the union of the excluded ones. Inputs of a selected
asset are not selected automatically. A term that matches nothing is Invalid, so that a typing error
is never an empty success.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from servo.contract.manifest import Asset, Manifest
from servo.errors import Invalid
from servo.suggest import did_you_mean

_BODY: Final = re.compile(r"(?P<up>\d*\+)?(?P<body>.+?)(?P<down>\+\d*)?", re.DOTALL)


class Graph:
    """The assets of a manifest, and who reads whom."""

    def __init__(self, manifest: Manifest) -> None:
        self.assets: dict[str, Asset] = {
            asset.key: asset for asset in sorted(manifest.assets, key=lambda asset: asset.key)
        }

    @cached_property
    def upstream(self) -> Mapping[str, tuple[str, ...]]:
        """What each asset reads or waits for, of this manifest; never itself."""
        return {key: self._inputs(key, asset) for key, asset in self.assets.items()}

    @cached_property
    def downstream(self) -> Mapping[str, tuple[str, ...]]:
        by_source: dict[str, list[str]] = {key: [] for key in self.assets}
        for key, sources in self.upstream.items():
            for source in sources:
                by_source[source].append(key)
        return {key: tuple(readers) for key, readers in by_source.items()}

    def _inputs(self, key: str, asset: Asset) -> tuple[str, ...]:
        sources = {each.asset for each in asset.inputs if each.asset != key}
        return tuple(sorted(sources & self.assets.keys()))


def select(graph: Graph, selection: Sequence[str], exclude: Sequence[str] = ()) -> dict[str, str]:
    """The selected keys, sorted, each with the first of the sorted terms that means it."""
    if not selection:
        raise Invalid("nothing is selected", hint="name an asset, or * for all of them")
    chosen: dict[str, str] = {}
    for term in sorted(set(selection)):
        for key in evaluate(graph, term):
            chosen.setdefault(key, term)
    without = {key for term in sorted(set(exclude)) for key in evaluate(graph, term)}
    selected = {key: chosen[key] for key in sorted(chosen) if key not in without}
    if not selected:
        raise Invalid("nothing is selected: all of it is excluded", hint="exclude fewer assets")
    return selected


def evaluate(graph: Graph, term: str) -> frozenset[str]:
    """The keys that one term means."""
    match = _BODY.fullmatch(term.strip())
    if match is None:
        raise Invalid("an empty selection", hint="name an asset, or * for all of them")
    seeds = _matching(graph, match["body"])
    keys = set(seeds)
    if match["up"]:
        keys |= _reachable(graph.upstream, seeds, match["up"].removesuffix("+"))
    if match["down"]:
        keys |= _reachable(graph.downstream, seeds, match["down"].removeprefix("+"))
    return frozenset(keys)


def _reachable(edges: Mapping[str, tuple[str, ...]], seeds: Iterable[str], depth: str) -> set[str]:
    """What lies at most `depth` steps away (any number, if empty), with the seeds."""
    keys = set(seeds)
    border, steps = keys, int(depth) if depth else len(edges)
    while border and steps > 0:
        border = {far for near in border for far in edges[near]} - keys
        keys |= border
        steps -= 1
    return keys


def _matching(graph: Graph, body: str) -> list[str]:
    if body == "*":
        return _some(list(graph.assets), "there are no assets", "deploy a project first")
    if body.startswith("tag:"):
        return _tagged(graph, body.removeprefix("tag:"))
    if body.startswith("group:"):
        return _grouped(graph, body.removeprefix("group:"))
    if body.endswith(".*"):
        return _in_namespace(graph, body.removesuffix(".*"))
    return [_named(graph, body)]


def _tagged(graph: Graph, text: str) -> list[str]:
    name, equals, value = text.partition("=")
    keys = [
        key
        for key, asset in graph.assets.items()
        if name in asset.tags and (not equals or asset.tags[name] == value)
    ]
    tags = {f"{tag}={held}" for asset in graph.assets.values() for tag, held in asset.tags.items()}
    candidates = tags if equals else {tag.partition("=")[0] for tag in tags}
    return _some(keys, f"no asset has the tag {text!r}", _suggestion("tags", text, candidates))


def _grouped(graph: Graph, group: str) -> list[str]:
    keys = [key for key, asset in graph.assets.items() if group and asset.group == group]
    groups = {asset.group for asset in graph.assets.values() if asset.group}
    return _some(keys, f"there is no group {group!r}", _suggestion("groups", group, groups))


def _in_namespace(graph: Graph, namespace: str) -> list[str]:
    keys = [key for key in graph.assets if key.partition(".")[0] == namespace]
    namespaces = {key.partition(".")[0] for key in graph.assets}
    return _some(
        keys,
        f"there is no namespace {namespace!r}",
        _suggestion("namespaces", namespace, namespaces),
    )


def _named(graph: Graph, name: str) -> str:
    if name in graph.assets:
        return name
    same = [key for key in graph.assets if key.partition(".")[2] == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise Invalid(f"{name!r} is ambiguous", hint=f"write one of: {', '.join(same)}")
    candidates = set(graph.assets)
    if "." not in name:
        candidates |= {key.partition(".")[2] for key in graph.assets}
    raise Invalid(f"there is no asset {name!r}", hint=_suggestion("assets", name, candidates))


def _some(keys: list[str], message: str, hint: str) -> list[str]:
    if not keys:
        raise Invalid(message, hint=hint)
    return keys


def _suggestion(what: str, text: str, candidates: Iterable[str]) -> str:
    names = sorted(candidates)
    listed = f"{what}: {', '.join(names[:10])}" if names else f"there are no {what}"
    return did_you_mean(text, names) or listed
