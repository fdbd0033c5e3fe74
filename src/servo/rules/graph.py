from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset, reference_targets
from servo.errors import Invalid
from servo.project import Problem
from servo.rules.foreign import is_foreign, own_namespaces
from servo.rules.mappings import own_past
from servo.suggest import did_you_mean


def inputs_exist(assets: Sequence[Asset]) -> Iterator[Problem]:
    """Those of the project's own namespaces; a deployment checks those of other projects."""
    keys = {asset.key for asset in assets}
    namespaces = own_namespaces(assets)
    for asset in assets:
        yield from _of_itself(asset)
        for key in dict.fromkeys(each.asset for each in asset.inputs):
            if key in keys or key in _looked_up(asset) or is_foreign(key, namespaces):
                continue
            yield _unknown(asset, key, keys)


def _looked_up(asset: Asset) -> set[str]:
    """Assets that only checks refer to; the rules for checks report their problems."""
    return set(reference_targets(asset)) - {each.asset for each in asset.inputs if each.parameter}


def _of_itself(asset: Asset) -> Iterator[Problem]:
    """An asset may read its own past, along one dimension of time, and nothing else of itself."""
    key = asset.key
    pasts = [own_past(each, asset) for each in asset.inputs if each.asset == key]
    if not all(pasts):
        name = key.partition(".")[2]
        hint = f'an asset can only read its own past, by time: In("{name}", window(-7, -1))'
        yield Problem.at(asset.code, f"{key} depends on itself", hint, key)
    elif len({past[0] for past in pasts}) > 1:
        message = f"{key} reads its own past along two dimensions"
        yield Problem.at(asset.code, message, "use one of them", key)


def _unknown(asset: Asset, key: str, keys: set[str]) -> Problem:
    try:
        AssetKey.parse(key)
    except Invalid as error:
        return Problem.at(asset.code, f"input: {error.message}", error.hint, asset.key)
    hint = did_you_mean(key, keys) or _by_name(key, keys) or "declare it, or check the spelling"
    return Problem.at(asset.code, f"the input {key!r} is unknown", hint, asset.key)


def _by_name(key: str, keys: set[str]) -> str:
    """A suggestion: the same name in another namespace."""
    name = key.partition(".")[2]
    same = sorted(each for each in keys if each.partition(".")[2] == name)
    return f"did you mean {same[0]!r}?" if same else ""


def no_cycles(assets: Sequence[Asset]) -> Iterator[Problem]:
    """One problem for each cycle that a walk in the order of keys closes."""
    by_key = {asset.key: asset for asset in sorted(assets, key=lambda asset: asset.key)}
    upstream = {
        key: sorted({i.asset for i in asset.inputs if i.asset in by_key and i.asset != key})
        for key, asset in by_key.items()
    }
    for cycle in _cycles(upstream):
        turned = _from_least(cycle)
        message = f"cycle: {' -> '.join([*turned, turned[0]])}"
        hint = "each asset reads the next one; remove one of these inputs"
        yield Problem.at(by_key[turned[0]].code, message, hint, turned[0])


def _cycles(upstream: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Depth first, without recursion: a chain may be as long as the project."""
    done: set[str] = set()
    for root in upstream:
        path: dict[str, Iterator[str]] = {} if root in done else {root: iter(upstream[root])}
        while path:
            current = next(reversed(path))
            following = next(path[current], None)
            if following is None:
                done.add(current)
                del path[current]
            elif following in path:
                walked = list(path)
                yield walked[walked.index(following) :]
            elif following not in done:
                path[following] = iter(upstream[following])


def _from_least(cycle: list[str]) -> list[str]:
    at = cycle.index(min(cycle))
    return cycle[at:] + cycle[:at]
