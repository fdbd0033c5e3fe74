"""Deployments and edits in any order, against a model in plain Python."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.app import Workspace
from arco.catalog.governance_events import GovernedValue, ValueRef
from arco.errors import NotFound, Refused
from servo.contract.manifest import Asset, Code, ColumnDef, Namespace, SlaSpec
from tests.kit import planning
from tests.kit.deploying import ARTIFACT
from tests.kit.depth import examples
from tests.kit.workspace import make_workspace

KEYS = ("x.a", "x.b")
COLUMNS = ("c", "d")
TEXTS = ("one", "two")
NAMES = ("p", "q", "r")
SLAS = ('{"text":"soon"}', '{"availability":"99.5"}')
LINKS = ("https://a", "https://b")
KINDS = {
    "description": str,
    "sla": str,
    "deprecated": str,
    "pii": str,
    "owners": list,
    "terms": list,
    "tags": dict,
    "links": dict,
}
FIELDS = {
    1: ("description", "owners", "tags", "sla", "terms", "links"),
    2: ("description", "owners", "tags", "sla", "terms", "links", "deprecated"),
    3: ("description", "pii", "terms"),
}
"""By the number of parts of a subject's name."""
VALUES = {"sla": SLAS, "links": LINKS, "pii": ("email", "phone", "none")}

Saying = dict[str, Any]

texts = st.sampled_from(("", *TEXTS))
names = st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(tuple)
maps = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=2)
links = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(LINKS), max_size=2)
slas = st.sampled_from((None, SlaSpec(text="soon")))
columns = st.fixed_dictionaries(
    {"description": texts, "pii": st.sampled_from(("", "email")), "terms": names}
)
assets = st.fixed_dictionaries(
    {
        "description": texts,
        "owners": names,
        "tags": maps,
        "sla": slas,
        "terms": names,
        "links": links,
        "deprecated": texts,
        "columns": st.dictionaries(st.sampled_from(COLUMNS), columns),
    }
)
namespaces = st.none() | st.fixed_dictionaries(
    {"description": texts, "owners": names, "tags": maps, "sla": slas, "terms": names}
)


class Deploy(NamedTuple):
    assets: dict[str, Saying]
    namespace: Saying | None


class Edit(NamedTuple):
    subject: str
    field: str
    entry: str
    value: str
    withdraw: bool


class Update(NamedTuple):
    """The command that replaces whole fields."""

    key: str
    owners: tuple[str, ...] | None
    description: str | None


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    subject = draw(st.sampled_from(("x", *KEYS, *(f"{k}.{c}" for k in KEYS for c in COLUMNS))))
    field = draw(st.sampled_from(FIELDS[1 + subject.count(".")]))
    named = KINDS[field] is not str
    withdraw = draw(st.booleans())
    entries = ("", *NAMES) if withdraw else NAMES
    value = draw(st.sampled_from(VALUES.get(field, TEXTS)))
    entry = draw(st.sampled_from(entries)) if named else ""
    return Edit(subject, field, entry, "" if KINDS[field] is list else value, withdraw)


steps = st.one_of(
    st.builds(Deploy, st.dictionaries(st.sampled_from(KEYS), assets, min_size=1), namespaces),
    edits(),
    edits(),
    st.builds(Update, st.sampled_from(KEYS), st.none() | names, st.none() | texts),
)


class Model:
    """What code and people say of each subject, and what follows from it."""

    def __init__(self) -> None:
        self.code: dict[str, Saying] = {}
        self.people: dict[str, Saying] = {}

    def deploy(self, step: Deploy) -> None:
        for key, asset in step.assets.items():
            said = {field: value for field, value in asset.items() if field != "columns"}
            self.code[key] = _plain(said)
            for column, value in asset["columns"].items():
                self.code[f"{key}.{column}"] = _plain(value)
        self.code["x"] = _plain(step.namespace or {})

    def edit(self, step: Edit) -> bool:
        if step.subject not in self.code:
            return False
        said = self.people.setdefault(step.subject, {})
        empty = KINDS[step.field]()
        before = said.get(step.field, empty)
        if step.withdraw:
            if not before or (step.entry and step.entry not in before):
                return False
            if isinstance(before, str) or not step.entry:
                said[step.field] = empty
            elif isinstance(before, list):
                said[step.field] = [each for each in before if each != step.entry]
            else:
                said[step.field] = {k: v for k, v in before.items() if k != step.entry}
        elif isinstance(before, str):
            said[step.field] = step.value
        elif isinstance(before, list):
            said[step.field] = before if step.entry in before else [*before, step.entry]
        else:
            said[step.field] = before | {step.entry: step.value}
        return True

    def update(self, step: Update) -> bool:
        if step.key not in self.code:
            return False
        said = self.people.setdefault(step.key, {})
        if step.owners is not None:
            said["owners"] = list(step.owners)
        if step.description is not None:
            said["description"] = step.description
        return True

    def effective(self, subject: str) -> Saying:
        code, people = self.code[subject], self.people.get(subject, {})
        result: Saying = {}
        for field in FIELDS[1 + subject.count(".")]:
            kind = KINDS[field]
            by_code, by_people = code.get(field, kind()), people.get(field, kind())
            if kind is str:
                result[field] = by_people or by_code
            elif kind is list:
                result[field] = by_code + [each for each in by_people if each not in by_code]
            else:
                result[field] = by_code | by_people
        if subject.count(".") == 1:
            above = self.effective("x")
            result["owners"] = result["owners"] or above["owners"]
            result["tags"] = above["tags"] | result["tags"]
            result["sla"] = result["sla"] or above["sla"]
        return result

    def users(self, term: str) -> list[str]:
        sources = (self.code, self.people)
        users = {s for each in sources for s in each if term in each[s].get("terms", ())}
        return sorted(users)


def _plain(said: Mapping[str, Any]) -> Saying:
    plain = {field: list(v) if isinstance(v, tuple) else v for field, v in said.items()}
    if "sla" in plain:
        plain["sla"] = SLAS[0] if plain["sla"] else ""
    return plain


def manifest_of(step: Deploy) -> Any:
    declared = [asset_of(key, said) for key, said in sorted(step.assets.items())]
    spaces = []
    if step.namespace is not None:
        spaces = [Namespace(name="x", code=Code(module="x", name="x"), **step.namespace)]
    digest = hashlib.sha256(ARTIFACT).hexdigest()
    return msgspec.structs.replace(
        planning.manifest(*declared), artifact=digest, namespaces=tuple(spaces)
    )


def asset_of(key: str, said: Saying) -> Asset:
    fields = {field: value for field, value in said.items() if field != "columns"}
    declared = [ColumnDef(name=n, type="int", **c) for n, c in said["columns"].items()]
    return planning.asset(key, columns=tuple(declared), **fields)


def perform(w: Workspace, model: Model, step: Deploy | Edit | Update) -> None:
    match step:
        case Deploy():
            w.commands.orchestration.deploy(manifest_of(step), ARTIFACT, allow_removals=True)
            model.deploy(step)
        case Edit():
            assert (refused(lambda: edit(w, step)) is None) == model.edit(step)
        case Update():
            assert (refused(lambda: update(w, step)) is None) == model.update(step)


def edit(w: Workspace, step: Edit) -> None:
    value = GovernedValue(field=step.field, entry=step.entry, value=step.value)
    ref = ValueRef(field=step.field, entry=step.entry)
    changes: Any = {"withdraw": [ref]} if step.withdraw else {"set": [value]}
    w.commands.governance.change(step.subject, **changes)


def update(w: Workspace, step: Update) -> None:
    w.commands.catalog.update_asset(step.key, owners=step.owners, description=step.description)


def refused(act: Any) -> Exception | None:
    try:
        act()
    except (Refused, NotFound) as error:
        return error
    return None


def check(w: Workspace, model: Model) -> None:
    reader = w.read.governance()
    for subject in model.code:
        view = reader.view(subject)
        expected = model.effective(subject)
        assert {field: view.effective[field] for field in expected} == expected
        for source, sayings in (("code", model.code), ("people", model.people)):
            assert spoken(view.values, source) == entries_of(sayings.get(subject, {}))
    for term in NAMES:
        assert list(reader.term_view(term).used_by) == model.users(term)
    deprecated = {key: model.effective(key)["deprecated"] for key in KEYS if key in model.code}
    assert reader.deprecations() == {key: text for key, text in deprecated.items() if text}


def spoken(values: Any, source: str) -> set[tuple[str, str, str]]:
    own = [v for v in values if v.source == source and not v.inherited_from]
    return {(v.field, v.entry, v.value) for v in own}


def entries_of(said: Saying) -> set[tuple[str, str, str]]:
    entries: set[tuple[str, str, str]] = set()
    for field, value in said.items():
        if isinstance(value, str):
            entries |= {(field, "", value)} if value else set()
        elif isinstance(value, list):
            entries |= {(field, entry, "") for entry in value}
        else:
            entries |= {(field, entry, text) for entry, text in value.items()}
    return entries


@settings(max_examples=examples(20))
@given(history=st.lists(steps, max_size=10))
def test_code_and_people_are_kept_apart_in_any_order_of_deployments_and_edits(
    history: list[Deploy | Edit | Update],
) -> None:
    w, model = make_workspace(), Model()
    for term in NAMES:
        w.commands.governance.create_term(term, description="a term")
    for step in history:
        perform(w, model, step)
        check(w, model)
    assert w.upkeep.rebuild(publish=False).same
