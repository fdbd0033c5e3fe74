"""Plans of inputs that name a version or a time."""

from __future__ import annotations

import msgspec
import pytest

from servo.errors import Invalid
from tests.kit.planning import DAYS, World, asset, manifest, names, planned, reads

replace = msgspec.structs.replace
ONE = "date=2025-01-01"
UP = asset("a.up", DAYS)
FIXED = replace(reads("a.up", parameter="old"), version="1")
PROJECT = manifest(UP, asset("a.down", DAYS, FIXED, reads("a.up", parameter="new")))


@pytest.fixture
def world() -> World:
    world = World()
    world.run(PROJECT, planned(PROJECT, "a.up", world=world, partitions=(ONE,)))
    world.pin("a.up", "1")
    world.run(PROJECT, planned(PROJECT, "a.up", world=world, partitions=(ONE,), force=True))
    return world


def test_one_partition_is_read_in_two_versions(world: World) -> None:
    spec = planned(PROJECT, "a.down", world=world, partitions=(ONE,))
    (task,) = spec.tasks
    versions = [
        [ref.materialization_id for ref in spec.versions_of(each)] for each in spec.inputs_of(task)
    ]
    assert [each.parameter for each in spec.inputs_of(task)] == ["old", "new"]
    assert versions[0] != versions[1] and [len(each) for each in versions] == [1, 1]
    world.run(PROJECT, spec)
    assert planned(PROJECT, "a.down", world=world, partitions=(ONE,)).tasks[0].action == "reuse"


def test_what_the_same_plan_makes_is_not_read_by_a_pin(world: World) -> None:
    only = manifest(UP, asset("a.down", DAYS, FIXED))
    world.run(only, planned(only, "a.down", world=world, partitions=(ONE,)))
    spec = planned(only, "a.up+", world=world, partitions=(ONE,), redo=(_task_id(world),))
    assert names(spec) == ["a.down date=d:2025-01-01", "a.up date=d:2025-01-01"]
    assert [task.action for task in spec.tasks] == ["reuse", "run"]
    assert spec.tasks[0].depends_on == ()


def _task_id(world: World) -> str:
    return planned(manifest(UP), "a.up", world=world, partitions=(ONE,)).tasks[0].task_id


def test_a_version_that_is_not_there_is_named(world: World) -> None:
    with pytest.raises(Invalid, match=r"version 1 of a.up\[date=2025-01-02\]") as refusal:
        planned(PROJECT, "a.down+", "a.up", world=world, partitions=("date=2025-01-02",))
    assert "servo partitions history" in refusal.value.hint
