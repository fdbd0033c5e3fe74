"""Health, causes and recommendations, from outside: a town on a clock that the test moves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.answers import past
from arco.answers.asset_health import HealthStatus
from arco.answers.asset_states import ASSET_STATES, RECENT, STAGE, AssetStateRow
from arco.answers.held_readers import readers_out_of_date
from arco.answers.observations import ObservationReader
from arco.answers.recommend import Recommender
from arco.answers.shapes import AssetExplanation, NoRecentRuns, RunExplanation, RunFailed
from arco.answers.snapshot_diff import snapshot_diff
from arco.catalog.governance import encode_sla
from arco.catalog.governance_events import GovernedValue
from arco.cli.app import tree
from arco.errors import NotFound
from arco.execution.commands import find_held
from arco.execution.events import (
    AttemptRecorded,
    CostIncurred,
    OutputAccepted,
    PartitionFailed,
    PartitionMaterialized,
)
from arco.execution.reader import ExecutionReader
from arco.execution.version_lookup import VersionLookup
from arco.log.envelope import Payload
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.out_of_date import OutOfDate
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.states import RunState
from arco.orchestration.world import World
from arco.quality.events import ChecksRecorded
from arco.state.fold import Fact, NoRows, Rows, fold_stage
from arco.state.snapshot import Generation
from arco.worker.supervise import Control
from servo.contract.manifest import Manifest, SlaSpec
from servo.contract.task import (
    Cost,
    ErrorInfo,
    Lineage,
    Materialization,
    TaskRequest,
    TaskResult,
    Usage,
)
from servo.errors import Invalid
from tests.kit.derived import derived_workspace
from tests.kit.flows import CITY, Outcome, Script, ScriptedExecutor, city_script
from tests.kit.freshness import AgingTown, policy, succeed
from tests.kit.schedules import START

CHAIN = """
from servo import asset, daily, AssetIn
days = daily('date', start='2026-01-01')
@asset(namespace='city', partitions=days)
def first() -> None: ...
@asset(namespace='city', partitions=days)
def second(first: AssetIn['city.first']) -> None: ...
@asset(namespace='city', partitions=days)
def third(second: AssetIn['city.second']) -> None: ...
"""
DAY = "date=d:2026-01-02"


def failing(*assets: str) -> Any:
    def script(request: TaskRequest) -> Outcome:
        if request.asset not in assets:
            return None
        return ErrorInfo(
            category="user_code", code="user_code.ValueError", message="no way", hint="mend it"
        )

    return script


class ReadingExecutor(ScriptedExecutor):
    """Its outputs have read all of their inputs."""

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        result = super().run(request, control, again=again)
        return msgspec.structs.replace(result, lineage=Lineage(read=request.inputs))


class SizedExecutor(ScriptedExecutor):
    """Its outputs have so many rows."""

    def __init__(self, workspace: Any, name: str, rows: int) -> None:
        super().__init__(workspace, name, succeed)
        self._rows = rows

    def run(self, request: TaskRequest, control: Control, *, again: bool = False) -> TaskResult:
        result = super().run(request, control, again=again)
        assert result.materialization is not None
        output = msgspec.structs.replace(result.materialization, rows=self._rows)
        return msgspec.structs.replace(result, materialization=output)


def town_of(text: str, script: Script = succeed) -> AgingTown:
    town = AgingTown(text)
    work_as(town, script)
    return town


def work_as(town: AgingTown, script: Script) -> None:
    town.crowd.workers.clear()
    town.crowd.worker(executor=lambda w: ReadingExecutor(w, "reader", script))


def explained(town: AgingTown, subject: str, *partition: str) -> Any:
    return town.fresh().answers().explain(subject, partition)


# -- causes -----------------------------------------------------------------------------------


def test_a_skipped_asset_is_explained_by_the_first_failure_above_it() -> None:
    town = town_of(CHAIN, failing("city.first"))
    run_id = town.run("date=2026-01-02", selection="*")
    answer = explained(town, "city.third")
    assert isinstance(answer, AssetExplanation)
    assert answer.partition == DAY, "without -p, what matters is explained"
    assert [(cause.kind, cause.asset, cause.partition) for cause in answer.causes] == [
        ("skipped", "city.third", DAY),
        ("skipped", "city.second", DAY),
        ("failed", "city.first", DAY),
    ]
    first = answer.causes[-1]
    assert (first.facts["run_id"], first.facts["error_code"]) == (run_id, "user_code.ValueError")
    assert [hint.command for hint in first.remedies] == [
        None,
        f"servo runs logs {run_id} --task city.first",
        f"servo runs retry {run_id}",
    ]
    assert [(each.kind, each.facts["upstream"]) for each in answer.recommendations] == [
        ("fix_upstream", "city.first")
    ]
    assert "no way" in methodcaller("_repr_html_")(answer)


def test_remedies_for_an_older_generation_look_at_it_and_change_nothing() -> None:
    town = town_of(CHAIN, failing("city.first"))
    run_id = town.run("date=2026-01-02", selection="*")
    at = town.fresh().read.snapshot().generation
    town.run("date=2026-01-02", selection="*")
    answers = town.fresh().answers(Generation(at))
    asset, run = answers.explain("city.third"), answers.explain(run_id)
    assert [[hint.command for hint in cause.remedies] for cause in asset.causes] == [
        ["servo explain city.third -p date=2026-01-02"],
        [],
        [None, f"servo runs logs {run_id} --task city.first"],
    ]
    now = town.fresh().answers().explain(run_id)
    advice = [hint for cause in now.causes for hint in cause.remedies if hint.command is None]
    assert asset.causes[2].remedies[0] == advice[0]  # the hint of the error, as it was
    assert [hint.command for hint in run.causes[0].remedies] == [
        f"servo runs show {run_id} --generation {at}",
        f"servo explain {run_id}",
    ]
    assert isinstance(asset, AssetExplanation)
    logs = f"servo runs logs {run_id} --task city.first"
    assert [each.command for each in asset.recommendations] == [logs]


def test_each_command_of_a_remedy_is_known_to_read_or_to_change() -> None:
    commands = set()
    for module in Path(past.__file__).parent.glob("*.py"):
        commands |= set(re.findall(r'f?"servo ([a-z ]+)', module.read_text()))
    named = {command.strip() for command in commands}
    changing = {"deploy", "quarantine approve", "quarantine release", "run", "runs retry"}
    assert named == past.AT_GENERATION | past.ANY_TIME | changing
    for command in past.AT_GENERATION:
        group: Any = tree()
        for word in command.split():
            group = group.commands[word]
        assert "generation" in {parameter.name for parameter in group.params}, command


def test_a_run_is_explained_by_the_task_that_failed_first() -> None:
    town = town_of(CITY, city_script)
    run_id = town.run(selection="*")
    town.wait(minutes=20)  # for retries
    answer = explained(town, run_id[:12])
    assert isinstance(answer, RunExplanation)
    assert answer.state == RunState.FAILED
    assert [(cause.kind, cause.asset) for cause in answer.causes] == [
        ("run_failed", ""),
        ("failed", "city.right"),
    ]
    assert {each.kind for each in answer.observations} == {"retries", "skipped"}


def test_what_was_made_up_for_is_no_cause_any_more() -> None:
    town = town_of(CHAIN, failing("city.first"))
    town.run("date=2026-01-02", selection="*")
    work_as(town, succeed)
    town.run("date=2026-01-02", selection="*")
    answer = explained(town, "city.third")
    assert (answer.causes, answer.status) == ((), HealthStatus.HEALTHY)
    assert "up to date" in answer.summary


def test_a_version_older_than_its_input_or_its_code_is_out_of_date() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    town.run("date=2026-01-02", selection="city.second")
    (cause,) = explained(town, "city.third", "date=2026-01-02").causes
    assert cause.kind == "out_of_date"
    assert "city.second[date=2026-01-02] has a newer version" in cause.text
    assert cause.remedies[0].command == "servo run city.third -p date=2026-01-02"
    town.deploy(CHAIN.replace("def first() -> None: ...", "def first() -> None: return None"))
    (cause,) = explained(town, "city.first", "date=2026-01-02").causes
    assert "its code changed" in cause.text


def test_a_partition_that_nobody_asked_for_is_explained_as_such() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    causes = explained(town, "city.third", "date=2026-01-03").causes
    assert [(cause.kind, cause.asset) for cause in causes] == [
        ("never_materialized", "city.third"),
        ("never_materialized", "city.second"),
        ("never_materialized", "city.first"),
    ]
    assert "it has no automation" in causes[-1].text


def test_an_asset_that_never_ran_is_explained_by_its_declared_inputs() -> None:
    town = town_of(CHAIN)
    assert [each.asset for each in explained(town, "city.third").causes] == [
        "city.third",
        "city.second",
        "city.first",
    ]


def test_a_stale_asset_says_why_in_the_shape_of_the_reason() -> None:
    town = AgingTown(policy("1h"))
    run_id = town.run()
    town.wait(hours=2, step_s=600)
    answer = explained(town, "city.alone")
    assert (answer.status, answer.causes[0].kind) == (HealthStatus.UNHEALTHY, "stale")
    assert isinstance(answer.freshness.stale_reason, NoRecentRuns)
    assert answer.freshness.staleness is not None
    work_as(town, failing("city.alone"))
    failed_run = town.run()
    reason = explained(town, "city.alone").freshness.stale_reason
    assert isinstance(reason, RunFailed)
    assert (reason.run_id, run_id != failed_run) == (failed_run, True)


PROMISED = """
from servo import SLA, asset, namespace
namespace('city', sla=SLA(max_age='3h'))
@asset(namespace='city', sla=SLA(max_age='1h'))
def own() -> None: ...
@asset(namespace='city')
def shared() -> None: ...
@asset(namespace='city', sla=SLA(text='as good as we can'))
def words() -> None: ...
"""


def sla_health(town: AgingTown) -> dict[str, tuple[str, str | None, bool | None]]:
    return {
        each.asset: (each.status, each.freshness.sla, each.freshness.within_sla)
        for each in town.fresh().answers().health()
    }


def test_an_asset_outside_its_sla_or_that_of_its_namespace_is_unhealthy() -> None:
    town = AgingTown(PROMISED)
    own, shared, words = ("at most 1h old", "at most 3h old", "as good as we can")
    assert sla_health(town)["city.own"] == ("UNKNOWN", own, None), "nothing was made yet"
    town.run(selection="*")
    town.wait(hours=2, step_s=600)
    assert sla_health(town) == {
        "city.own": ("UNHEALTHY", own, False),
        "city.shared": ("HEALTHY", shared, True),
        "city.words": ("HEALTHY", words, None),
    }
    town.wait(hours=2, step_s=600)
    assert sla_health(town)["city.shared"] == ("UNHEALTHY", shared, False)
    answer = explained(town, "city.own")
    assert (answer.status, [each.kind for each in answer.causes]) == ("UNHEALTHY", ["stale"])
    assert answer.summary.startswith("city.own is outside its SLA (at most 1h old): ")
    assert answer.freshness.staleness is not None
    assert answer.freshness.staleness >= timedelta(hours=3)
    assert isinstance(answer.freshness.stale_reason, NoRecentRuns)
    day = GovernedValue(field="sla", value=encode_sla(SlaSpec(max_age_s=86_400)))
    town.fresh().commands.governance.change("city.own", set=[day])
    assert sla_health(town)["city.own"] == ("HEALTHY", "at most 1d old", True), "people decide"
    assert explained(town, "city.own").causes == ()


def test_with_a_freshness_policy_an_sla_is_about_the_newest_period() -> None:
    text = policy("1h", partitions="daily('date', start='2026-01-01')")
    text = text.replace("import Freshness", "import SLA, Freshness")
    town = AgingTown(text.replace("freshness=", "sla=SLA(max_age='30h'), freshness="))
    town.run("date=2026-01-04")  # it is Monday, the 5th
    town.wait(hours=26, step_s=3600)
    town.run("date=2026-01-01")
    (health,) = town.fresh().answers().health()
    assert health.reasons[0].startswith("date=2026-01-05 is missing"), "its policy says so"
    assert not any("SLA" in each for each in health.reasons)
    town.wait(hours=24, step_s=3600)
    (health,) = town.fresh().answers().health()
    assert health.reasons[0].startswith("outside its SLA (at most 30h old): newer data was due")


def test_an_output_that_checks_hold_is_the_cause_and_makes_the_asset_unhealthy() -> None:
    town = AgingTown(policy("1d"))
    town.hold_back()
    town.run()
    answer = explained(town, "city.alone")
    assert (answer.status, [each.kind for each in answer.causes]) == ("UNHEALTHY", ["held"])
    assert answer.quality.has_quarantined
    held = answer.causes[0].facts["materialization_id"]
    assert f"servo quarantine approve {held}" in [e.command for e in answer.causes[0].remedies]
    snapshot = town.fresh().read.snapshot()
    lookup = VersionLookup(
        snapshot, "city.alone", OrchestrationReader(snapshot).asset_id("city.alone")
    )
    with pytest.raises(NotFound, match="has no current version") as missing:
        lookup.version((), None)
    assert missing.value.hint == f"its last output is held: see `servo quarantine show {held}`"


def hold(town: AgingTown, asset: str, number: int = 0) -> str:
    """Somebody holds a version: the one with this number, or the current one."""
    workspace = town.fresh()
    snapshot = workspace.read.snapshot()
    asset_id = OrchestrationReader(snapshot).asset_id(asset)
    version = str(number) if number else None
    row = VersionLookup(snapshot, asset, asset_id).version((), version)
    workspace.commands.execution.quarantine(asset, asset_id, row.materialization_id, "too few")
    return row.materialization_id


def test_a_version_that_a_person_holds_is_the_cause_also_for_its_readers() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    id = hold(town, "city.first")
    answer = explained(town, "city.first")
    who = ExecutionReader(town.fresh().read.snapshot()).quarantine()[0].held_by
    (cause,) = answer.causes
    assert cause.text.endswith(f"is held by {who}: too few")
    assert f"servo quarantine release {id}" in [each.command for each in cause.remedies]
    assert answer.health.reasons[0] == f"date=2026-01-02 held by {who}: too few"
    assert not any("check" in reason for reason in answer.health.reasons)
    reader = explained(town, "city.second")
    assert [(each.kind, each.asset) for each in reader.causes] == [
        ("out_of_date", "city.second"),
        ("held", "city.first"),
    ]
    assert reader.causes[0].remedies == (), "it cannot run"
    assert f"is held by {who}: too few" in reader.summary


def test_a_held_version_that_was_superseded_makes_nothing_unhealthy() -> None:
    town = town_of(CHAIN)
    for _ in range(2):
        town.run("date=2026-01-02", selection="city.first")
    hold(town, "city.first", 1)
    answers = town.fresh().answers()
    (health,) = answers.health(["city.first"])
    assert (health.status, health.reasons) == (HealthStatus.HEALTHY, ())
    assert explained(town, "city.first").status == HealthStatus.HEALTHY


def test_a_version_is_compared_with_an_earlier_good_one_after_a_hold() -> None:
    town = town_of(CHAIN)
    for rows in (10, 100, 1000):
        town.crowd.workers.clear()
        town.crowd.worker(executor=lambda w, rows=rows: SizedExecutor(w, "sized", rows))
        town.run("date=2026-01-02", selection="city.first")
    hold(town, "city.first")
    (seen,) = [e for e in explained(town, "city.first").observations if e.kind == "different"]
    assert (seen.facts["rows"], seen.facts["rows_before"]) == (100, 10)


def test_only_what_was_made_from_another_version_is_out_of_date() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    town.run("date=2026-01-02", selection="city.first")

    def readers(*, given_back: bool) -> OutOfDate:
        workspace = town.fresh()
        snapshot = workspace.read.snapshot()
        (held,) = ExecutionReader(snapshot).quarantine(decided=True)
        world = World.of(OrchestrationReader(snapshot), workspace.library)
        return readers_out_of_date(snapshot, world, held, given_back=given_back)

    id = hold(town, "city.first")
    assert readers(given_back=False) == OutOfDate(), "made from what is current again"
    town.run("date=2026-01-02", selection="city.second")
    workspace = town.fresh()
    held = find_held(workspace.read.snapshot(), id)
    workspace.commands.execution.decide(held, approved=True)
    assert readers(given_back=True) == OutOfDate(("city.second", "city.third"), ())
    town.run("date=2026-01-02", selection="city.second")
    assert readers(given_back=True) == OutOfDate()


def test_an_earlier_generation_is_explained_as_it_was() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    workspace = town.fresh()
    before = Generation(workspace.read.snapshot().generation)
    work_as(town, failing("city.first"))
    town.run("date=2026-01-02", selection="*")
    then, now = (town.fresh().answers(at).explain_asset("city.first") for at in (before, None))
    assert (then.status, now.status) == (HealthStatus.HEALTHY, HealthStatus.WARNING)
    assert [len(then.causes), len(now.causes)] == [0, 1]


def test_what_names_nothing_is_refused_with_a_suggestion() -> None:
    town = town_of(CHAIN)
    answers = town.fresh().answers()
    with pytest.raises(NotFound, match=r"city\.thrid is not deployed"):
        answers.explain("city.thrid")
    with pytest.raises(NotFound, match="neither an asset nor a run"):
        answers.explain("x")
    with pytest.raises(Invalid, match="does not name a partition"):
        answers.explain("city.third", ["2026-01-01"])
    with pytest.raises(Invalid, match=r"of city\.third have no dimension 'day'") as caught:
        answers.explain("city.third", ["day=1"])
    assert caught.value.hint == "they have: date"
    with pytest.raises(Invalid, match="is not over yet"):
        answers.explain("city.third", ["date=2099-01-01"])


# -- health -----------------------------------------------------------------------------------


def test_health_is_listed_worst_first_and_follows_selections() -> None:
    town = town_of(CITY, city_script)
    town.run(selection="*")
    answers = town.fresh().answers()
    statuses = {each.asset: str(each.status) for each in answers.health()}
    assert list(statuses.values())[:2] == ["WARNING", "UNKNOWN"]
    assert statuses["city.right"] == "WARNING" and statuses["city.bottom"] == "UNKNOWN"
    assert [each.asset for each in answers.health(["city.right+"])] == ["city.right", "city.bottom"]
    (right,) = answers.with_runs(answers.health(["city.right"]))
    assert right.last_run is not None
    assert (right.last_run.outcome, right.last_run.tasks_failed) == ("failed", 1)
    assert (right.consecutive_failures, right.failing_partitions) == (1, 1)


def test_an_asset_without_checks_has_no_pass_rate() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    (health,) = town.fresh().answers().health(["city.first"])
    assert (health.quality.pass_rate, health.quality.recent_results) == (None, 0)
    assert health.status == HealthStatus.HEALTHY


# -- what stands out --------------------------------------------------------------------------


def attempted(number: int, wall_ms: int, *, good: bool = True) -> Iterator[Payload]:
    """What the report of a task derives; the asset is one that was deployed."""
    names: Any = {name: f"{name}{number:03}" for name in ("run_id", "task_id", "attempt_id")}
    if good:
        yield OutputAccepted(
            materialization=Materialization(
                materialization_id=f"M{number:03}",
                asset="city.first",
                asset_id=FIRST_ID,
                partition=DAY,
                path="p",
                files=("f",),
                rows=7,
                fingerprint="x",
                **names,
            )
        )
    yield CostIncurred(
        asset_id=FIRST_ID,
        asset="city.first",
        partition=DAY,
        attempt=1,
        outcome="succeeded" if good else "failed",
        usage=Usage(wall_ms=wall_ms, bytes_read=wall_ms),
        cost=Cost(),
        **names,
    )


FIRST_ID = "01FIRST"


def test_costs_are_compared_with_those_of_successes() -> None:
    workspace = derived_workspace()
    usual = [attempted(at, 1_000) for at in range(4)]
    slow_failures = [attempted(10 + at, 60_000, good=False) for at in range(4)]
    for report in (*usual, *slow_failures, attempted(20, 9_000)):
        workspace.ledger.append(list(report))
        workspace.committer.commit()
        workspace.clock.sleep(1)
    snapshot = workspace.read.snapshot()
    reader = ObservationReader(snapshot, lineage_reader(snapshot))
    (cause,) = reader.of("city.first", FIRST_ID, DAY)
    assert (cause.kind, cause.facts["usual_wall_ms"]) == ("expensive", 1_000)
    assert "it read 9,000 bytes, usually 1,000" in cause.text


def test_readers_beyond_the_list_are_counted() -> None:
    readers = "".join(
        f"@asset(namespace='city')\ndef reader{at:02}(top: AssetIn['city.top']) -> None: ...\n"
        for at in range(25)
    )
    town = town_of(f"from servo import asset, AssetIn\n{TOP}{readers}")
    town.run(selection="*")
    lineage = explained(town, "city.top").lineage
    assert (len(lineage.downstream), lineage.downstream_count) == (20, 25)


TOP = "@asset(namespace='city')\ndef top() -> None: ...\n"


# -- the fold ---------------------------------------------------------------------------------


def folded(*payloads: Any) -> AssetStateRow:
    rows = Rows(NoRows())
    facts = [
        Fact(at + 1, START + timedelta(seconds=at), f"E{at}", "", "", each)
        for at, each in enumerate(payloads)
    ]
    assert fold_stage(STAGE, rows, facts, []) == []
    row = rows.get(ASSET_STATES, "A")
    assert row is not None
    return row


def materialized(id: str, **fields: Any) -> PartitionMaterialized:
    return PartitionMaterialized(
        asset_id="A", asset="x.a", partition="", materialization_id=id, made_at=START, **fields
    )


def test_a_state_keeps_the_newest_and_a_bounded_past() -> None:
    outputs = [materialized(f"M{at}", rows=at, bytes=at, files=1) for at in range(RECENT + 5)]
    bad = PartitionFailed(asset_id="A", run_id="R", held=False, partition="p", code="c")
    row = folded(*outputs, bad, bad)
    assert row.last_materialization_id == f"M{RECENT + 4}"
    assert row.recent_rows == list(range(5, RECENT + 5))
    assert (row.consecutive_failures, row.last_failure_partition, row.last_outcome) == (
        2,
        "p",
        "failed",
    )
    again = folded(*outputs, bad, materialized("N"))
    assert (again.consecutive_failures, again.last_outcome) == (0, "succeeded")


def test_a_version_that_is_current_again_is_not_counted_again() -> None:
    first, second = (materialized(f"M{at}", run_id=f"R{at}", rows=at) for at in (1, 2))
    held = PartitionFailed(asset_id="A", run_id="R2", held=True)
    replace = msgspec.structs.replace
    quarantined = (first, second, replace(first, again=True), held)
    row = folded(*quarantined)
    assert (row.last_materialization_id, row.last_outcome) == ("M1", "held")
    assert (row.recent_rows, row.last_success_at) == ([1, 2], START + timedelta(seconds=1))
    row = folded(*quarantined, replace(second, again=True))  # released
    assert (row.last_materialization_id, row.last_outcome) == ("M2", "succeeded")
    assert (row.recent_rows, row.last_success_at) == ([1, 2], START + timedelta(seconds=1))


# -- recommendations --------------------------------------------------------------------------


def recommended(town: AgingTown, row: AssetStateRow) -> dict[str, str]:
    class Known:
        def get(self, *_: Any) -> AssetStateRow:
            return row

        def rows(self, *_: Any) -> list[Any]:
            return []

    found = Recommender(Known()).asset("x.a", "A")  # type: ignore[arg-type]
    return {each.kind: each.reason for each in found}


def test_recommendations_follow_from_the_recent_past() -> None:
    small = [materialized(f"M{at}", rows=9, bytes=800, files=8) for at in range(5)]
    checks = [ChecksRecorded(asset_id="A", checks=10, passed=9, action="warn")] * 2
    attempts = [AttemptRecorded(asset_id="A", attempt=1 + at % 2, wall_ms=500) for at in range(6)]
    town = town_of(CHAIN)
    reasons = recommended(town, folded(*small, *checks, *attempts))
    assert reasons == {
        "failing_checks": "Quality pass rate is 90.0% (18 of 20 results).",
        "retries": "3 of its last 6 attempts were retries.",
        "small_files": "Its last outputs have 8 files of 100 bytes on average.",
        "unread": "No asset reads it; its last 6 attempts took 3.0 s.",
    }
    quiet = [materialized(f"M{at}", rows=9, bytes=1 << 30, files=8) for at in range(4)]
    assert recommended(town, folded(*quiet)) == {}


# -- differences ------------------------------------------------------------------------------


def test_a_diff_shows_assets_partitions_and_lineage_also_after_merges() -> None:
    town = town_of(CHAIN)
    workspace = town.fresh()
    first = workspace.read.snapshot()
    town.run("date=2026-01-02", selection="*")
    middle = workspace.read.snapshot()
    town.deploy(
        CHAIN.replace("def first() -> None: ...", "def first() -> None: return None")
        .replace("def second(first: AssetIn['city.first'])", "def second()")
        .replace("def third(second: AssetIn['city.second'])", "def fourth()")
    )
    town.run("date=2026-01-02", selection="city.first")
    for each in (workspace, town.fresh()):
        last = each.read.snapshot()  # the second time, all of it is in other files
        one = snapshot_diff(first, middle)
        assert [each.asset for each in one.added_partitions] == [
            "city.first",
            "city.second",
            "city.third",
        ]
        assert one.lineage_changes == (), "edges come with deployments"
        two = snapshot_diff(middle, last)
        assert (two.added_assets, two.removed_assets) == (("city.fourth",), ("city.third",))
        assert [(e.change, e.source, e.target) for e in two.lineage_changes] == [
            ("removed", "city.first", "city.second")
        ]
        assert [(e.asset, list(e.changes)) for e in two.modified_assets] == [
            ("city.first", ["code"]),
            ("city.second", ["code"]),
        ]
        assert [(e.asset, e.version) for e in two.modified_partitions] == [("city.first", 2)]
        assert snapshot_diff(last, last).same
        workspace.upkeep.merger.merge(everything=True)


def test_a_diff_reads_only_files_that_one_of_the_generations_lacks() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    workspace = town.fresh()
    before = workspace.read.snapshot()
    town.run("date=2026-01-02", selection="city.third")
    after = workspace.read.snapshot()
    shared = {ref.path for t in workspace.tables for ref in before.manifest(t).files()}
    read: list[str] = []
    files = after.files
    original = files.table

    def counted(table: Any, ref: Any) -> Any:
        read.append(ref.path)
        return original(table, ref)

    files.table = counted  # type: ignore[method-assign]
    try:
        assert len(snapshot_diff(before, after).modified_partitions) == 1
    finally:
        files.table = original  # type: ignore[method-assign]
    assert read and not shared & set(read)


def test_a_diff_across_a_rollback_shows_what_came_back() -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    workspace = town.fresh()
    before = workspace.read.snapshot()
    town.run("date=2026-01-03", selection="*")
    after = workspace.read.snapshot()
    workspace.upkeep.rollback(before.generation, reason="a test")
    back = workspace.read.snapshot()
    assert len(snapshot_diff(before, after).added_partitions) == 3
    assert len(snapshot_diff(after, back).removed_partitions) == 3
    assert snapshot_diff(before, back).same


def test_manifests_are_not_read_to_explain_what_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    town = town_of(CHAIN)
    town.run("date=2026-01-02", selection="*")
    workspace = town.fresh()

    def refused(digest: str) -> Manifest:
        raise AssertionError("what this costs would grow with the project")

    for name in ("manifest", "outline", "assets"):
        monkeypatch.setattr(workspace.library, name, refused)
    assert workspace.answers().explain("city.third").summary


def test_an_unknown_id_is_named_as_it_was_written() -> None:
    with pytest.raises(NotFound, match="'nowhere' is not the id of a run"):
        town_of(CHAIN).fresh().answers().explain("nowhere")
