"""What code and people say of assets: refusals, the glossary, deprecation, inheritance."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from arco.app import Workspace
from arco.catalog.events import Column
from arco.catalog.fold import ASSETS_STAGE
from arco.catalog.governance_events import AssetGoverned, GovernedValue, ValueRef
from arco.catalog.governance_tables import ASSET_STATEMENTS
from arco.catalog.tables import ASSETS
from arco.cli import render
from arco.errors import Invalid, NotFound, Refused
from arco.orchestration.governance_notes import governance_notes
from arco.state.fold import Fact, NoRows, Put, Rows, fold_stage
from arco.state.snapshot import Generation
from servo.contract.keys import AssetKey
from servo.contract.manifest import Asset, ColumnDef
from tests.kit import planning
from tests.kit.clocks import SimClock
from tests.kit.deploying import manifest, put
from tests.kit.workspace import make_workspace

KEY = AssetKey("sales", "orders")
ORDERS = planning.asset(
    "sales.orders",
    description="from code",
    owners=("ana",),
    columns=(ColumnDef(name="mail", type="string", pii="email"),),
)


@pytest.fixture
def w() -> Workspace:
    w = make_workspace(clock=SimClock(), actor="cy")
    put(w, ORDERS)
    return w


def say(
    w: Workspace, subject: str, field: str, entry: str = "", value: str = "", **more: Any
) -> int:
    each = GovernedValue(field=field, entry=entry, value=value)
    return w.commands.governance.change(subject, set=[each], **more).generation


def withdraw(w: Workspace, subject: str, field: str, entry: str = "") -> None:
    w.commands.governance.change(subject, withdraw=[ValueRef(field=field, entry=entry)])


def test_deploy_keeps_what_people_set_and_withdrawing_it_shows_the_code_again(w: Workspace) -> None:
    then = say(w, "sales.orders", "description", value="from people")
    put(w, msgspec.structs.replace(ORDERS, description="new code"))
    catalog = w.read.catalog()
    assert catalog.asset(KEY).row.description == "from people"
    values = w.read.governance().view("sales.orders").values
    sources = {v.source: (v.value, v.in_effect, v.set_by, v.generation) for v in values[:2]}
    newest = w.read.snapshot().generation
    assert sources == {
        "code": ("new code", False, "cy", newest),
        "people": ("from people", True, "cy", then),
    }
    withdraw(w, "sales.orders", "description")
    assert w.read.governance().view("sales.orders").effective["description"] == "new code"
    before = w.read.governance(Generation(then)).view("sales.orders")
    assert before.effective["description"] == "from people"


def test_withdrawing_what_code_says_names_the_place_where_it_can_be_changed(w: Workspace) -> None:
    with pytest.raises(Refused, match="it is in the code: change it there"):
        withdraw(w, "sales.orders.mail", "pii")
    column = Column(name="mail", type="string")
    put(w, msgspec.structs.replace(ORDERS, columns=()))
    w.commands.catalog.add_column(KEY, column)
    with pytest.raises(Refused, match="stopped declaring the column: set another value"):
        withdraw(w, "sales.orders.mail", "pii")


def test_change_of_a_row_that_has_changed_since_is_refused(w: Workspace) -> None:
    for subject in ("sales", "sales.orders", "sales.orders.mail"):
        version = w.read.governance().view(subject).version
        say(w, subject, "description", value="one", expected_version=version)
        with pytest.raises(Refused, match=f"version is .*not {version}"):
            say(w, subject, "description", value="two", expected_version=version)
        assert w.read.governance().view(subject).effective["description"] == "one"


@pytest.mark.parametrize(
    ("subject", "field", "entry", "value"),
    [
        ("sales.orders", "pii", "", "email"),
        ("sales.orders.mail", "owners", "ana", ""),
        ("sales.orders.mail", "pii", "", "emial"),
        ("sales.orders.mail", "sensitivity", "", "high"),
        ("sales", "deprecated", "", "use x"),
        ("sales", "colour", "", "red"),
        ("sales", "description", "", " "),
        ("sales", "description", "", "x" * 5_000),
        ("sales", "description", "entry", "x"),
        ("sales", "owners", "", ""),
        ("sales", "tags", "", "gold"),
        ("sales", "links", "run", "javascript:alert(1)"),
        ("sales", "terms", "No Name", ""),
        ("sales", "sla", "", "soon"),
        ("sales.", "description", "", "x"),
        ("sales.orders.", "description", "", "x"),
    ],
)
def test_bad_value_is_refused_and_changes_nothing(
    w: Workspace, subject: str, field: str, entry: str, value: str
) -> None:
    before = w.read.snapshot().generation
    with pytest.raises(Invalid) as caught:
        say(w, subject, field, entry, value)
    assert str(caught.value)
    assert w.read.snapshot().generation == before


def test_control_characters_of_people_are_refused_and_escaped_in_tables(
    w: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Invalid, match="control characters"):
        say(w, "sales.orders", "owners", "x\x1b[31m\ny")
    with pytest.raises(Invalid, match="control characters"):
        w.commands.catalog.rename_column("sales.orders", "mail", "a\nb")
    render.show(render.table(["name"], [("a\nb",)]))
    assert capsys.readouterr().out.split() == ["name", "a\\nb"]
    with pytest.raises(NotFound) as caught:
        w.commands.governance.drop_term("nope")
    assert "terms list" in caught.value.hint


def test_fold_refuses_a_bad_value_that_nobody_checked(w: Workspace) -> None:
    asset_id = w.read.catalog().asset_id(KEY)
    about = AssetGoverned(asset_id=asset_id, asset_key="sales.orders")
    bad = GovernedValue(field="colour", value="red")
    for change in (
        msgspec.structs.replace(about, set=(bad,)),
        msgspec.structs.replace(about, withdraw=(ValueRef(field="description"),)),
        msgspec.structs.replace(about, asset_key="sales.other", withdraw=(ValueRef(field="tags"),)),
    ):
        with pytest.raises(Refused):
            w.commands.tier1.execute(change)


def test_nobody_adds_more_owners_than_the_limit(w: Workspace) -> None:
    many = [GovernedValue(field="owners", entry=f"o{n}") for n in range(201)]
    with pytest.raises(Refused, match="201 owners; the limit is 200"):
        w.commands.governance.change("sales.orders", set=many)


def test_term_is_not_dropped_while_it_is_used_unless_forced(w: Workspace) -> None:
    terms = w.commands.governance
    with pytest.raises(NotFound, match="no term lead"):
        say(w, "sales.orders", "terms", "lead")
    terms.create_term("lead", description="Who may buy")
    with pytest.raises(Refused, match="already exists"):
        terms.create_term("lead", description="Again")
    for subject in ("sales", "sales.orders", "sales.orders.mail"):
        say(w, subject, "terms", "lead")
    view = w.read.governance().term_view("lead")
    assert view.used_by == ("sales", "sales.orders", "sales.orders.mail")
    with pytest.raises(Refused, match="used 3 times"):
        terms.drop_term("lead")
    with pytest.raises(Refused, match="version is"):
        terms.update_term("lead", description="x", expected_version=1)
    terms.update_term("lead", description="y", expected_version=view.version)
    for subject in ("sales", "sales.orders"):
        withdraw(w, subject, "terms", "lead")
    with pytest.raises(Refused, match="used once"):
        terms.drop_term("lead")
    with pytest.raises(Refused, match="the term lead has changed"):
        terms.drop_term("lead", force=True, expected_version=view.version)
    version = w.read.governance().term_view("lead").version
    terms.drop_term("lead", force=True, expected_version=version)
    assert w.read.governance().terms() == []
    assert w.read.governance().view("sales.orders.mail").effective["terms"] == ["lead"]
    assert w.upkeep.rebuild(publish=False).same


def test_uses_and_statements_go_with_their_asset(w: Workspace) -> None:
    w.commands.governance.create_term("lead", description="Who may buy")
    column = Column(name="mail", type="string")
    created = w.commands.catalog.create_asset("sales.leads", columns=[column])
    for subject in ("sales.leads", "sales.leads.mail"):
        say(w, subject, "terms", "lead")
    say(w, "sales.leads", "deprecated", value="use x")
    w.commands.catalog.drop_column("sales.leads", "mail")
    assert w.read.governance().term_view("lead").used_by == ("sales.leads",)
    w.commands.catalog.drop_asset("sales.leads")
    reader = w.read.governance()
    assert (reader.term_view("lead").used_by, reader.deprecations()) == ((), {})
    assert reader.snapshot.rows(ASSET_STATEMENTS, created.event_id) == []


def reads(key: str, name: str) -> Asset:
    return planning.asset(name, planning.reads(key))


def notes(w: Workspace | None, *assets: Asset, project: str = "main") -> list[str]:
    snapshot = None if w is None else w.read.snapshot()
    return [n.message for n in governance_notes(manifest(*assets, project=project), snapshot)]


def test_who_reads_a_deprecated_asset_is_told(w: Workspace) -> None:
    old = msgspec.structs.replace(ORDERS, deprecated="use sales.sold")
    own, other = reads("sales.orders", "sales.sums"), reads("sales.orders", "ads.reach")
    message = "{} reads sales.orders, which is deprecated: {}"
    assert notes(None, old, own) == [message.format("sales.sums", "use sales.sold")]
    assert notes(w, other, project="ads") == []
    put(w, other, project="ads")
    put(w, old, own)
    assert notes(w, other, project="ads") == [message.format("ads.reach", "use sales.sold")]
    assert "sales.orders is deprecated, and read by ads" in notes(w, old, own)
    assert notes(w, ORDERS, own) == []  # the code takes it back
    say(w, "sales.orders", "deprecated", value="people say so")
    assert notes(w, ORDERS, own) == [message.format("sales.sums", "people say so")]
    assert notes(w, other, project="ads") == [message.format("ads.reach", "people say so")]
    put(
        w,
        msgspec.structs.replace(ORDERS, key="sales.sold", renamed_from="sales.orders"),
        allow_missing_inputs=True,
    )
    assert w.read.governance().deprecations() == {"sales.sold": "people say so"}


def test_unknown_terms_of_code_are_told(w: Workspace) -> None:
    asset = msgspec.structs.replace(ORDERS, terms=("lead",))
    assert notes(w, asset) == ["the glossary has no term 'lead'"]
    w.commands.governance.create_term("lead", description="Who may buy")
    assert notes(w, asset) == []


def test_namespace_gives_what_its_assets_do_not_have(w: Workspace) -> None:
    put(w, ORDERS, planning.asset("sales.bare", tags={"tier": "gold"}))
    say(w, "sales", "owners", "team")
    say(w, "sales", "tags", "tier", "silver")
    say(w, "sales", "tags", "area", "shop")
    say(w, "sales", "sla", value='{"text":"soon"}')
    bare, orders = map(w.read.governance().view, ("sales.bare", "sales.orders"))
    assert bare.effective["owners"] == ["team"]
    assert bare.effective["tags"] == {"area": "shop", "tier": "gold"}
    assert bare.effective["sla"] == '{"text":"soon"}'
    assert bare.inherited == ("owners", "tags", "sla")
    assert orders.effective["owners"] == ["ana"]
    effects = {(v.field, v.entry): v.in_effect for v in bare.values if v.inherited_from}
    assert effects == {
        ("owners", "team"): True,
        ("tags", "area"): True,
        ("tags", "tier"): False,
        ("sla", ""): True,
    }
    row = w.read.catalog().asset(AssetKey("sales", "bare")).row
    assert (row.owners, row.tags) == ([], {"tier": "gold"})


def test_rows_from_before_there_were_statements_keep_what_they_say(w: Workspace) -> None:
    row = w.read.catalog().asset(KEY).row
    rows = Rows(NoRows())
    rows.apply(Put(ASSETS, row), 1)
    change = AssetGoverned(
        asset_id=row.asset_id,
        asset_key="sales.orders",
        set=(GovernedValue(field="owners", entry="bo"),),
    )
    fact = Fact(2, w.clock.now(), "id", "key", "cy", change)
    fold_stage(ASSETS_STAGE, rows, [fact], [])
    after = rows.get(ASSETS, row.asset_id)
    assert after is not None
    assert (after.description, after.owners) == ("from code", ["ana", "bo"])
    sources = {each.source: each.values for each in rows.scan(ASSET_STATEMENTS, row.asset_id)}
    assert sources == {
        "code": {"description": "from code", "owners:ana": "0"},
        "people": {"owners:bo": "0"},
    }
