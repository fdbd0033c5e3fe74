from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from servo.contract.keys import check_name
from servo.contract.manifest import Asset, Namespace
from servo.errors import Invalid
from servo.project import Problem
from servo.rules.partitions import check_timezone
from servo.suggest import did_you_mean

LINKS: Final = ("https://", "http://", "mailto:")


def governance_is_sound(assets: Sequence[Asset]) -> Iterator[Problem]:
    for asset in assets:
        for error in _errors(asset):
            yield Problem.at(asset.code, error.message, error.hint, asset.key)
        for column in asset.columns:
            for term in column.terms:
                if flaw := _bad_term(term):
                    message = f"the column {column.name!r}: {flaw.message}"
                    yield Problem.at(asset.code, message, flaw.hint, asset.key)


def namespaces_are_sound(
    namespaces: Sequence[Namespace], assets: Sequence[Asset]
) -> Iterator[Problem]:
    own = {asset.key.partition(".")[0] for asset in assets}
    names: set[str] = set()
    for each in namespaces:
        if each.name in names:
            yield Problem.at(each.code, f"the namespace {each.name!r} is described twice")
        elif each.name not in own:
            message = f"the namespace {each.name!r} has no assets in this project"
            hint = did_you_mean(each.name, own) or "describe it in the project with its assets"
            yield Problem.at(each.code, message, hint)
        names.add(each.name)
        for error in _errors(each):
            message = f"the namespace {each.name!r}: {error.message}"
            yield Problem.at(each.code, message, error.hint)


def _errors(subject: Asset | Namespace) -> Iterator[Invalid]:
    for term in subject.terms:
        if error := _bad_term(term):
            yield error
    for name, url in subject.links.items():
        if not name or not url.startswith(LINKS):
            hint = f"a link has a name, and a URL with one of {', '.join(LINKS)}"
            yield Invalid(f"the link {name!r} is {url!r}", hint=hint)
    for owner in subject.owners:
        if not owner.strip():
            yield Invalid("an owner is empty", hint="name a person or a team")
    if "" in subject.tags:
        yield Invalid("a tag has no key", hint='write {"tier": "gold"}')
    if subject.sla is not None:
        try:
            check_timezone(subject.sla.timezone)
        except Invalid as error:
            yield Invalid(f"sla: {error.message}", hint=error.hint)


def _bad_term(term: str) -> Invalid | None:
    try:
        check_name(term, "term")
    except Invalid as error:
        return error
    return None
