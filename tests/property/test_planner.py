"""Plans of projects that nobody thought of, against a planner that only counts on its fingers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arco.orchestration.plan import PlannedTask, PlanSpec, spec_fingerprint
from arco.orchestration.selection import Graph, evaluate
from servo.contract.manifest import (
    AllUpstream,
    Asset,
    Dimension,
    Identity,
    Input,
    Latest,
    Manifest,
    StaticDimension,
    TimeDimension,
    Window,
)
from servo.contract.partition import PartitionKey
from servo.errors import Invalid
from tests.kit.depth import examples
from tests.kit.planning import CUSTOMERS, World, asset, asset_id, manifest, planned, time

KEYS = [f"{'ab'[n % 2]}.n{n}" for n in range(6)]
CUSTOMER_KEYS = ["c1", "c2"]
DAY = timedelta(days=1)

times: st.SearchStrategy[Dimension] = st.builds(
    lambda start, end: time(start=f"2025-01-0{start}", end=end and f"2025-01-0{end}"),
    st.integers(1, 6),
    st.sampled_from([None, None, 7, 9]),
)
statics: st.SearchStrategy[Dimension] = st.lists(
    st.sampled_from(["eu", "us", "ap"]), min_size=1, unique=True
).map(lambda values: StaticDimension(name="region", values=tuple(values)))
dimensions = st.lists(
    st.one_of(times, times, statics, st.just(CUSTOMERS)), max_size=2, unique_by=lambda d: d.name
)
windows = st.tuples(st.integers(-3, 2), st.integers(0, 3)).map(lambda w: Window(w[0], w[0] + w[1]))


@st.composite
def inputs(draw: st.DrawFn, upstream: Asset, own: list[Dimension]) -> Input:
    names = {dimension.name for dimension in own}
    rules: dict[str, Any] = {}
    for dimension in upstream.partitions:
        choices: list[st.SearchStrategy[Any]] = [st.just(AllUpstream()), st.just(Latest())]
        if dimension.name in names:
            choices.append(st.just(Identity()))
            if isinstance(dimension, TimeDimension):
                choices += [windows, windows, windows]
        rules[dimension.name] = draw(st.one_of(choices))
    parameter = draw(st.sampled_from(["x", "x", "x", ""])) and f"p{upstream.key[-1]}"
    return Input(asset=upstream.key, parameter=parameter, dimensions=rules)


@st.composite
def projects(draw: st.DrawFn) -> Manifest:
    assets: list[Asset] = []
    for key in KEYS[: draw(st.integers(1, len(KEYS)))]:
        own = draw(dimensions)
        upstreams = (
            draw(st.lists(st.sampled_from(assets), min_size=1, max_size=3)) if assets else []
        )
        unique = {upstream.key: upstream for upstream in upstreams}.values()
        read = [draw(inputs(upstream, own)) for upstream in unique]
        assets.append(asset(key, *own, *read, tags={"odd": str(int(key[-1]) % 2)}))
    return manifest(*assets)


def everything(project: Manifest) -> PlanSpec | None:
    """A plan of all that could be, for its partitions alone."""
    try:
        ranges = ("date=all",) if any(_dates(each) for each in project.assets) else ()
        return planned(bare(project), "*", world=World(customers=CUSTOMER_KEYS), partitions=ranges)
    except Invalid:
        return None


def _dates(each: Asset) -> bool:
    return any(isinstance(dimension, TimeDimension) for dimension in each.partitions)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Manifest, World, tuple[str, ...], dict[str, Any]]:
    """A project, what exists of it, and what somebody asks for."""
    project = draw(projects())
    world = World(customers=CUSTOMER_KEYS)
    possible = everything(project)
    seed = draw(st.integers(0, 1000))
    share = draw(st.sampled_from([0.0, 0.5, 1.0, 1.0]))
    chance = random.Random(seed)
    for task in possible.tasks if possible else ():
        if chance.random() < share:
            world.make(task.asset, task.partition)
    present = [each.key for each in project.assets]
    term = st.sampled_from([*present, *(f"+{key}" for key in present), "*", "a.*"])
    selection = tuple(draw(st.lists(term, min_size=1, max_size=3)))
    ranged = any(_dates(each) for each in project.assets)
    ranges = (
        draw(st.sampled_from(["", "date=all", "date=2025-01-04..2025-01-06"])) if ranged else ""
    )
    return project, world, selection, {"partitions": (ranges,) if ranges else ()}


def attempt(
    project: Manifest, world: World, selection: Iterable[str], request: dict[str, Any]
) -> PlanSpec | str:
    try:
        return planned(project, *selection, world=world, **request)
    except Invalid as error:
        return str(error)


# -- the slow planner ---------------------------------------------------------------------


def values(text: str) -> dict[str, Any]:
    return dict(PartitionKey.parse(text).dimensions)


def allowed(rule: Any, wanted: Any, found: Any) -> bool:
    match rule:
        case Identity():
            return bool(found == wanted)
        case Window(start, end):
            return bool(wanted + start * DAY <= found <= wanted + end * DAY)
    return True


def expected_input(each: Input, partition: str, existing: set[str]) -> set[str]:
    own = values(partition)
    fitting = []
    for text in sorted(existing):
        found = values(text)
        rules = each.dimensions.items()
        if all(allowed(rule, own.get(name), found[name]) for name, rule in rules):
            fitting.append(found)
    newest = [name for name, rule in sorted(each.dimensions.items()) if isinstance(rule, Latest)]
    return {
        str(PartitionKey(found))
        for found in fitting
        if not any(_beats(other, found, newest) for other in fitting)
    }


def _beats(other: dict[str, Any], found: dict[str, Any], newest: list[str]) -> bool:
    same = all(other[name] == found[name] for name in found if name not in newest)
    return same and [other[name] for name in newest] > [found[name] for name in newest]


def planned_partitions(spec: PlanSpec, key: str) -> dict[str, int]:
    return {task.partition: at for at, task in enumerate(spec.tasks) if task.asset == key}


# -- properties ---------------------------------------------------------------------------


@given(situations())
@settings(max_examples=examples(150))
def test_inputs_and_order_are_those_of_a_slow_planner(situation: Any) -> None:
    project, world, selection, request = situation
    spec = attempt(project, world, selection, request)
    assume(isinstance(spec, PlanSpec))
    assert isinstance(spec, PlanSpec)
    for at, task in enumerate(spec.tasks):
        check_task(project, world, spec, at, task)


def check_task(project: Manifest, world: World, spec: PlanSpec, at: int, task: PlannedTask) -> None:
    declared = project.asset(task.asset)
    assert declared is not None
    waits: set[int] = set()
    read = {each.parameter: each for each in spec.inputs_of(task)}
    for each in declared.inputs:
        numbers = planned_partitions(spec, each.asset)
        made = set(world.current(asset_id(each.asset)))
        found = expected_input(each, task.partition, made | set(numbers))
        if not each.parameter:
            waits |= {numbers[text] for text in found if text in numbers}
            continue
        tasks = {numbers[text] for text in found if text in numbers}
        running = {spec.tasks[n].partition for n in tasks if spec.tasks[n].action == "run"}
        assert {above.partition for above in spec.tasks_of(read[each.parameter])} == running
        refs = [ref.partition for ref in spec.versions_of(read[each.parameter])]
        assert set(refs) == found - running
        assert refs == sorted(refs, key=PartitionKey.parse)
        assert tasks or refs
        waits |= tasks
    assert task.depends_on == tuple(sorted(waits))
    assert all(number < at for number in task.depends_on)
    assert task.stage == max((spec.tasks[n].stage + 1 for n in task.depends_on), default=0)


@given(situations())
@settings(max_examples=examples(150))
def test_a_plan_is_refused_exactly_if_an_input_is_missing(situation: Any) -> None:
    project, world, selection, request = situation
    tasks = attempt(bare(project), world, restated(project, selection), request)
    outcome = attempt(project, world, selection, request)
    if isinstance(tasks, str):
        assert outcome == tasks
    else:
        missing = any(lacks(project, world, tasks, task) for task in tasks.tasks)
        assert isinstance(outcome, str) == missing
        assert missing == str(outcome).startswith("inputs are missing and not part of this plan")


def bare(project: Manifest) -> Manifest:
    """The same partitions, and nobody reads anybody."""
    return manifest(*(msgspec.structs.replace(each, inputs=()) for each in project.assets))


def restated(project: Manifest, selection: Iterable[str]) -> list[str]:
    """The assets of a selection, by name."""
    graph = Graph(project)
    return sorted({key for term in selection for key in evaluate(graph, term)})


def lacks(project: Manifest, world: World, spec: PlanSpec, task: PlannedTask) -> bool:
    declared = project.asset(task.asset)
    assert declared is not None
    return any(
        each.parameter
        and not expected_input(
            each,
            task.partition,
            {*world.current(asset_id(each.asset)), *planned_partitions(spec, each.asset)},
        )
        for each in declared.inputs
    )


@given(situations(), st.randoms(use_true_random=False))
@settings(max_examples=examples(70))
def test_the_order_of_what_is_given_does_not_matter(situation: Any, chance: Any) -> None:
    project, world, selection, request = situation
    assets, terms = list(project.assets), list(selection)
    chance.shuffle(assets)
    chance.shuffle(terms)
    first = attempt(project, world, selection, request)
    second = attempt(manifest(*assets), world, [*terms, terms[0]], request)
    assert first == second
    if isinstance(first, PlanSpec) and isinstance(second, PlanSpec):
        assert spec_fingerprint(first) == spec_fingerprint(second)


@given(situations())
@settings(max_examples=examples(70))
def test_tasks_are_sorted_and_only_what_was_asked_for(situation: Any) -> None:
    project, world, selection, request = situation
    spec = attempt(project, world, selection, request)
    assume(isinstance(spec, PlanSpec))
    assert isinstance(spec, PlanSpec)
    graph = Graph(project)
    asked = {key for term in selection for key in evaluate(graph, term)}
    assert {task.asset for task in spec.tasks} <= asked
    places = [(t.stage, t.asset, PartitionKey.parse(t.partition)) for t in spec.tasks]
    assert places == sorted(places)
    assert len({task.task_id for task in spec.tasks}) == len(spec.tasks)


@given(situations(), st.integers(0, 50))
@settings(max_examples=examples(70))
def test_after_a_run_all_is_reused_until_something_changes(situation: Any, change: int) -> None:
    project, world, selection, request = situation
    first = attempt(project, world, selection, request)
    assume(isinstance(first, PlanSpec))
    assert isinstance(first, PlanSpec)
    world.run(project, first)
    again = attempt(project, world, selection, request)
    assert isinstance(again, PlanSpec)
    assert {task.action for task in again.tasks} == {"reuse"}
    changed = again.tasks[change % len(again.tasks)]
    world.make(changed.asset, changed.partition, fingerprint="of something else")
    check_reuse(attempt(project, world, selection, request), changed)


def check_reuse(spec: PlanSpec | str, changed: PlannedTask) -> None:
    """Exactly the changed task runs, and what follows from it."""
    assert isinstance(spec, PlanSpec)
    running: set[int] = set()
    for at, task in enumerate(spec.tasks):
        itself = (task.asset, task.partition) == (changed.asset, changed.partition)
        if itself or running & set(task.depends_on):
            running.add(at)
    assert {at for at, task in enumerate(spec.tasks) if task.action == "run"} == running


@given(st.dates(date(2020, 1, 1), date(2024, 12, 1)), st.integers(0, 40))
def test_a_range_has_all_its_days(start: date, days: int) -> None:
    last = start + days * DAY
    project = manifest(asset("a.n0", time(start="2020-01-01")))
    spec = planned(project, "a.n0", partitions=(f"date={start}..{last}",))
    assert [task.partition for task in spec.tasks] == [
        f"date=d:{start + n * DAY}" for n in range(days + 1)
    ]


SCRIPT = """
from arco.orchestration.plan import spec_fingerprint
from tests.unit.test_planner_golden import first_run, partly_reused, tenants_and_keys
for make in (first_run, partly_reused, tenants_and_keys):
    print(spec_fingerprint(make()))
"""


def test_fingerprints_are_the_same_in_every_process() -> None:
    root = Path(__file__).parents[2]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().split()) == 3
