"""Personal data: where it is, why, what is suggested, and what a policy makes of it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from arco.answers.version_data import personal_columns
from arco.app import Workspace
from arco.catalog.events import Column
from arco.columns.recognizers import suggestions
from arco.dispatch.versions import CommittedVersions
from arco.errors import NotFound
from arco.lineage.events import LineageRecorded
from arco.lineage.reader import Node
from arco.orchestration.catalog_names import CatalogNames
from arco.orchestration.personal_data import PersonalColumn, PersonalDataReader
from arco.search.reader import SearchReader
from arco.state.snapshot import Generation
from arco.worker.personal_check import personal_data_check
from servo.contract.keys import AssetKey
from servo.contract.manifest import ColumnDef
from servo.contract.task import (
    CodeRef,
    ColumnLineage,
    ColumnSource,
    InputRef,
    Lineage,
    PersonalInput,
    PersonalRule,
    TaskRequest,
    personal,
)
from tests.kit.clocks import SimClock
from tests.kit.derived import derived_workspace

HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


@pytest.fixture
def w(clock: SimClock) -> Workspace:
    """raw.people.mail is an e-mail address, and flows to mart.people.contact and mart.stats."""
    w = derived_workspace(clock=clock)
    catalog, lineage = w.commands.catalog, w.commands.lineage
    for namespace in ("raw", "mart"):
        catalog.create_namespace(namespace)
    mail = Column(name="mail", type="string", pii="email", sensitivity="restricted")
    catalog.create_asset("raw.people", columns=[mail, Column(name="n", type="bigint")])
    text = [Column(name=name, type="string") for name in ("contact", "hash")]
    catalog.create_asset("mart.people", columns=text)
    catalog.create_asset("mart.stats", columns=[Column(name="contact", type="string")])
    lineage.add(Node("raw.people", "mail"), Node("mart.people", "contact"))
    lineage.add(Node("raw.people", "mail"), Node("mart.people", "hash"), masked=True)
    lineage.add(Node("mart.people", "contact"), Node("mart.stats", "contact"))
    return w


def read(w: Workspace) -> PersonalDataReader:
    return PersonalDataReader(w.read.snapshot())


def pii(w: Workspace, asset: str, column: str) -> list[str]:
    return sorted(read(w).explain(asset, column).label.pii)


def test_personal_data_reaches_what_its_values_flow_into(w: Workspace) -> None:
    assert read(w).everything() == [
        PersonalColumn("mart.people", "contact", ("email",), "restricted", True),
        PersonalColumn("mart.people", "hash", (), "internal", True),
        PersonalColumn("mart.stats", "contact", ("email",), "restricted", True),
        PersonalColumn("raw.people", "mail", ("email",), "restricted", False),
    ]
    assert [c.asset for c in read(w).everything("raw")] == ["raw.people"]
    assert set(read(w).columns("mart.people")) == {"contact", "hash"}


def found(w: Workspace, query: str, generation: int | None = None) -> dict[str, list[str]]:
    """The assets that a search finds, and the columns for which it does."""
    at = None if generation is None else Generation(generation)
    hits = SearchReader(w.read.snapshot(at)).search(query).hits
    return {hit.asset: [m.text for m in hit.matches if m.how == "filter"] for hit in hits}


def test_a_search_finds_personal_data_that_flowed_there(w: Workspace, clock: SimClock) -> None:
    everywhere = {"raw.people": ["mail"], "mart.people": ["contact"], "mart.stats": ["contact"]}
    assert found(w, "has:pii") == everywhere
    assert found(w, "stats has:pii namespace:mart") == {"mart.stats": ["contact"]}
    generation = w.read.snapshot().generation
    w.commands.catalog.update_column("mart.people", "contact", pii="none")
    assert found(w, "has:pii") == {"raw.people": ["mail"]}, "a person's word stops it"
    w.commands.catalog.update_column("mart.people", "hash", pii="custom:pseudonym")
    assert found(w, "has:pii namespace:mart") == {"mart.people": ["hash"]}
    assert found(w, "has:pii", generation) == everywhere
    clock.advance(HOUR)
    w.commands.catalog.update_column("mart.people", "contact", pii="", name="address")
    w.commands.catalog.rename_asset("raw.people", "persons")
    assert found(w, "has:pii")["mart.stats"] == ["contact"], "renames stop nothing"


def test_an_explanation_has_the_way_and_where_it_stopped(w: Workspace) -> None:
    explanation = read(w).explain("mart.stats", "contact")
    assert [str(link.target) for link in explanation.paths["email"]] == [
        "mart.people.contact",
        "mart.stats.contact",
    ]
    (stopped,) = read(w).explain("mart.people", "hash").stopped
    assert stopped.reason == "email: hashed or masked"
    with pytest.raises(NotFound):
        read(w).explain("mart.nothing", "x")
    with pytest.raises(NotFound, match=r"mart\.stats has no column 'contct'") as caught:
        read(w).explain("mart.stats", "contct")
    assert "did you mean 'contact'?" in caught.value.hint


def test_a_column_whose_sources_are_unknown_is_not_called_not_personal(w: Workspace) -> None:
    recorded = LineageRecorded(
        asset="mart.people",
        asset_id=str(w.read.catalog().asset_id(AssetKey.parse("mart.people"))),
        materialization_id="M1",
        partition="",
        run_id="R",
        task_id="t",
        rows=1,
        bytes=1,
        transform="",
        lineage=Lineage(read=(InputRef(asset="raw.people", parameter="p"),), unmapped=("address",)),
    )
    w.ledger.append([w.ledger.event(recorded)])
    w.committer.commit()
    (unknown,) = read(w).explain("mart.people", "address").unknown
    assert str(unknown) == "mart.people.address"
    assert read(w).explain("mart.people", "contact").unknown == ()


def test_what_a_person_says_of_a_column_wins_and_stays(w: Workspace) -> None:
    w.commands.catalog.update_column("mart.people", "contact", pii="none")
    assert pii(w, "mart.people", "contact") == [] == pii(w, "mart.stats", "contact")
    w.commands.lineage.add(Node("raw.people", "mail"), Node("mart.people", "contact"), owner="x")
    assert pii(w, "mart.people", "contact") == []
    w.commands.catalog.update_column("mart.people", "contact", pii="")
    assert pii(w, "mart.stats", "contact") == ["email"]


def test_renames_keep_edges_impact_and_labels(w: Workspace, clock: SimClock) -> None:
    clock.advance(HOUR)
    w.commands.catalog.rename_asset("raw.people", "persons")
    w.commands.catalog.update_column("raw.persons", "mail", name="email")
    w.commands.catalog.update_column("mart.people", "contact", name="address")
    reader = w.read.lineage()
    assert {str(each.node) for each in reader.impact("raw.persons", "email")} == {
        "mart.people.address",
        "mart.people.hash",
        "mart.stats.contact",
    }
    assert [str(link.source) for link in reader.upstream("mart.stats", "contact")] == [
        "mart.people.address",
        "raw.persons.email",
    ]
    assert {row.source for row in reader.edges("mart.people")} == {"raw.persons"}
    assert pii(w, "mart.stats", "contact") == ["email"]
    clock.advance(HOUR)
    w.commands.catalog.add_column("mart.people", Column(name="contact", type="string"))
    w.commands.lineage.add(Node("mart.people", "contact"), Node("mart.stats", "contact"))
    assert [str(each.source) for each in w.read.lineage().upstream("mart.stats", "contact")] == [
        "mart.people.contact"
    ]
    assert pii(w, "mart.stats", "contact") == [], "a new column under an old name is another one"
    assert w.upkeep.rebuild().same


def test_inherited_personal_data_is_hidden_under_every_name(w: Workspace, clock: SimClock) -> None:
    def hidden(asset: str) -> frozenset[str]:
        snapshot = w.read.snapshot()
        return personal_columns(CatalogNames(snapshot).id(asset), snapshot)

    assert hidden("mart.people") == {"contact"}, "what was hashed is shown"
    clock.advance(HOUR)
    w.commands.catalog.update_column("raw.people", "mail", name="Email")
    w.commands.catalog.update_column("mart.people", "contact", name="address")
    assert hidden("raw.people") == {"mail", "email"}
    assert hidden("mart.people") == {"contact", "address"}
    w.commands.catalog.update_column("mart.people", "address", pii="none", sensitivity="public")
    assert hidden("mart.people") == frozenset()


def test_a_policy_gets_personal_columns_by_their_names_in_files(
    w: Workspace, clock: SimClock
) -> None:
    clock.advance(HOUR)
    w.commands.catalog.update_column("raw.people", "mail", name="email")
    personal = CommittedVersions(w.manifests, w.core.files).personal_columns("raw.people")
    assert personal == {"email": ("email",), "mail": ("email",)}


def test_edges_of_nothing_and_circles_are_refused(w: Workspace) -> None:
    add = w.commands.lineage.add
    for source, target, words in (
        (Node("mart.stats"), Node("raw.people"), "cycle"),
        (Node("mart.stats", "contact"), Node("raw.people", "nn"), "no column 'nn'"),
        (Node("raw.nothing"), Node("raw.people"), "no asset raw.nothing"),
        (Node("raw.people"), Node("raw.people"), "one asset"),
        (Node("raw.people"), Node("mart.stats", "contact"), "an asset and a column"),
    ):
        with pytest.raises(Exception, match=words):
            add(source, target)


@pytest.mark.parametrize(
    ("name", "type", "samples", "kinds"),
    [
        ("email", "string", (), ["email"]),
        ("customerEmail", "varchar(80)", (), ["email"]),
        ("email_verified", "boolean", (), []),
        ("email_verified", "string", ("yes", "no"), []),
        ("email_count", "bigint", (), []),
        ("contact", "string", ("a@x.org", None, "b@y.de"), ["email"]),
        ("mail", "string", ("letter", "parcel"), []),
        ("created_ms", "bigint", (1_700_000_000_000, 1_700_000_000_007), []),
        ("number", "string", ("4111 1111 1111 1111",), ["credit_card"]),
        ("first_name", "string", (), ["name"]),
        ("product_name", "string", (), []),
    ],
)
def test_suggestions_follow_from_name_type_and_values(
    name: str, type: str, samples: tuple[object, ...], kinds: list[str]
) -> None:
    assert [each.kind for each in suggestions(name, type, samples)] == kinds
    assert all(each.reason and each.recognizer for each in suggestions(name, type, samples))


def request(policy: str, **fields: object) -> TaskRequest:
    rule = PersonalRule(
        policy=policy,  # type: ignore[arg-type]
        inputs={"raw.people": (PersonalInput("mail", ("email",)),)},
        **fields,  # type: ignore[arg-type]
    )
    return TaskRequest(
        tenant_id="t",
        workspace_id="w",
        run_id="r",
        task_id="t",
        plan_id="p",
        attempt=1,
        attempt_id="a",
        asset="mart.people",
        asset_id="A",
        code=CodeRef(artifact="z", module="m", name="n"),
        columns=(ColumnDef(name="known", pii="email"),),
        personal=rule,
    )


def flowing(column: str, kind: str = "identity", masked: bool = False) -> Lineage:
    source = ColumnSource("raw.people", "mail", kind, masked)  # type: ignore[arg-type]
    return Lineage(columns=(ColumnLineage(column=column, sources=(source,)),))


def test_a_policy_holds_or_warns_of_personal_data_that_nobody_declared() -> None:
    (refused,) = personal_data_check(request("refuse"), flowing("contact"))
    assert (refused.passed, refused.action, refused.columns) == (False, "quarantine", ("contact",))
    assert "contact gets email of raw.people.mail" in refused.message
    (warned,) = personal_data_check(request("warn"), flowing("contact"))
    assert (warned.passed, warned.action) == (False, "warn")
    for lineage in (
        flowing("known"),
        flowing("contact", "filter"),
        flowing("contact", "transformation", True),
    ):
        (passed,) = personal_data_check(request("refuse"), lineage)
        assert passed.passed and passed.action == "continue"
    (said,) = personal_data_check(request("refuse", classified=("contact",)), flowing("contact"))
    assert said.passed


def test_a_column_that_lineage_has_twice_is_checked_by_both() -> None:
    twice = Lineage(columns=(*flowing("contact", "filter").columns, *flowing("contact").columns))
    (refused,) = personal_data_check(request("refuse"), twice)
    assert refused.columns == ("contact",)


def test_a_column_that_is_said_to_be_not_personal_is_not_masked() -> None:
    assert personal([ColumnDef(name="A", pii="none"), ColumnDef(name="B", pii="email")]) == ("b",)
