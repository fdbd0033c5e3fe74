"""The checker itself: it accepts what can be explained, and rejects what cannot."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from tests.linearizability import history, report
from tests.linearizability.checker import Operation, violations
from tests.linearizability.models import EXISTS, MISSING, OK, Model

NAMESPACE = "namespace sales"
SALES = {"op": "create_namespace", "value": "v0"}


class Story:
    """A history, told by the instants of calls and ends."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.now = 0

    def call(self, key: str, op: str, **given: Any) -> int:
        """Somebody calls; the number to end it with. It is open until then."""
        self.now += 1
        number = len(self.operations)
        self.operations.append(Operation(str(number), key, self.now, None, {"op": op, **given}))
        return number

    def end(self, number: int, output: Any) -> None:
        self.now += 1
        self.operations[number] = self.operations[number]._replace(end=self.now, output=output)

    def did(self, key: str, op: str, output: Any, **given: Any) -> None:
        """A call that ends before anything else happens."""
        self.end(self.call(key, op, **given), output)

    @property
    def bad(self) -> list[str]:
        return [violation.key for violation in violations(self.operations, Model())]


@pytest.fixture
def story() -> Story:
    story = Story()
    story.did(NAMESPACE, "create_namespace", OK, value="v0")
    return story


def create(story: Story, name: str, value: str, output: Any = OK) -> None:
    story.did(NAMESPACE, "create_asset", output, name=name, value=value, columns=())


def get(story: Story, name: str, output: Any) -> None:
    story.did(NAMESPACE, "get_asset", output, name=name)


# Good ones


def test_nothing_is_linearizable() -> None:
    assert violations([], Model()) == []


def test_one_after_the_other_as_the_model_says_is_linearizable(story: Story) -> None:
    create(story, "a", "v1")
    create(story, "a", "v2", EXISTS)
    story.did(NAMESPACE, "update_asset", OK, name="a", value="v3")
    story.did(NAMESPACE, "rename_asset", OK, name="a", new="b")
    get(story, "a", MISSING)
    story.did(NAMESPACE, "add_column", OK, name="b", column="c", value="t1")
    story.did(NAMESPACE, "add_column", EXISTS, name="b", column="c", value="t2")
    story.did(NAMESPACE, "update_column", OK, name="b", column="c", value="t3")
    story.did(NAMESPACE, "add_column", OK, name="b", column="d", value="t4")
    story.did(NAMESPACE, "rename_column", EXISTS, name="b", column="c", new="d")
    story.did(NAMESPACE, "rename_column", OK, name="b", column="c", new="e")
    story.did(NAMESPACE, "drop_column", OK, name="b", column="d")
    story.did(NAMESPACE, "drop_column", MISSING, name="b", column="d")
    get(story, "b", ("v1", "v3", (("e", "t3"),)))
    story.did(NAMESPACE, "list_assets", (("b", "v1", "v3"),))
    story.did(NAMESPACE, "drop_namespace", "not_empty")
    story.did(NAMESPACE, "drop_asset", OK, name="b")
    story.did(NAMESPACE, "update_namespace", OK, value="v5")
    story.did(NAMESPACE, "get_namespace", ("v5", 0))
    story.did(NAMESPACE, "drop_namespace", OK)
    story.did(NAMESPACE, "get_namespace", MISSING)
    assert story.bad == []


def test_concurrent_writers_may_take_effect_in_either_order(story: Story) -> None:
    for last in ("v2", "v3"):
        create(story, last, "v1")
        calls = [
            story.call(NAMESPACE, "update_asset", name=last, value=value) for value in ("v2", "v3")
        ]
        for number in calls:
            story.end(number, OK)
        get(story, last, ("v1", last, ()))
    assert story.bad == []


def test_of_two_creators_either_may_win_but_not_both(story: Story) -> None:
    for outputs, bad in (((OK, EXISTS), []), ((EXISTS, OK), []), ((OK, OK), [NAMESPACE])):
        race = Story()
        race.operations, race.now = list(story.operations), story.now
        calls = [race.call(NAMESPACE, "create_asset", name="a", value=v, columns=()) for v in "xy"]
        for number, output in zip(calls, outputs, strict=True):
            race.end(number, output)
        assert race.bad == bad


def test_open_operation_may_have_happened_or_not_and_late(story: Story) -> None:
    create(story, "a", "v1")
    story.call(NAMESPACE, "drop_asset", name="a")
    story.call(NAMESPACE, "update_asset", name="a", value="v2")
    get(story, "a", ("v1", "v1", ()))
    get(story, "a", ("v1", "v2", ()))
    get(story, "a", MISSING)
    assert story.bad == []


def test_many_open_operations_do_not_stop_the_search(story: Story) -> None:
    create(story, "a", "v1")
    for number in range(60):
        story.call(NAMESPACE, "update_asset", name="a", value=f"open {number}")
    for number in random.Random(1).sample(range(60), 30):
        get(story, "a", ("v1", f"open {number}", ()))
    assert story.bad == []


def test_keys_are_checked_on_their_own() -> None:
    story = Story()
    story.did("namespace a", "create_namespace", OK, value="v1")
    story.did("namespace b", "create_namespace", EXISTS, value="v2")
    assert story.bad == ["namespace b"]


# Bad ones


def test_read_of_what_was_overwritten_is_rejected(story: Story) -> None:
    create(story, "a", "v1")
    story.did(NAMESPACE, "update_asset", OK, name="a", value="v2")
    get(story, "a", ("v1", "v1", ()))
    assert story.bad == [NAMESPACE]


def test_acknowledged_write_that_nobody_sees_is_rejected(story: Story) -> None:
    create(story, "a", "v1")
    story.did(NAMESPACE, "list_assets", ())
    assert story.bad == [NAMESPACE]


def test_readers_that_go_back_in_time_are_rejected(story: Story) -> None:
    create(story, "a", "v1")
    story.call(NAMESPACE, "update_asset", name="a", value="v2")
    get(story, "a", ("v1", "v2", ()))
    get(story, "a", ("v1", "v1", ()))
    assert story.bad == [NAMESPACE]


def test_refusal_without_a_reason_is_rejected(story: Story) -> None:
    create(story, "a", "v1", EXISTS)
    assert story.bad == [NAMESPACE]


def test_effect_of_a_refused_command_is_rejected(story: Story) -> None:
    create(story, "a", "v1")
    number = story.call(NAMESPACE, "create_asset", name="a", value="v2", columns=())
    story.end(number, EXISTS)
    get(story, "a", ("v2", "v2", ()))
    assert story.bad == [NAMESPACE]


def test_command_that_a_late_duplicate_brings_back_after_a_rollback_is_rejected() -> None:
    story = Story()
    story.did(NAMESPACE, "create_namespace", OK, value="v0")
    story.did(NAMESPACE, "mark", OK, mark="before")
    create(story, "mistake", "v1")
    story.did(NAMESPACE, "rollback", OK, mark="before")
    get(story, "mistake", MISSING)
    assert story.bad == []
    get(story, "mistake", ("v1", "v1", ()))
    assert story.bad == [NAMESPACE]


@pytest.mark.parametrize("undo", ["drop_asset", "update_asset"])
def test_command_that_takes_effect_twice_is_rejected(story: Story, undo: str) -> None:
    create(story, "a", "v1")
    story.did(NAMESPACE, "update_asset", OK, name="a", value="v2")
    story.did(NAMESPACE, undo, OK, name="a", value="v3")
    get(story, "a", MISSING if undo == "drop_asset" else ("v1", "v3", ()))
    assert story.bad == []
    get(story, "a", ("v1", "v2", ()))
    assert story.bad == [NAMESPACE]


def test_retry_that_is_doubled_is_rejected() -> None:
    story = Story()
    key = "run k"
    story.did(key, "trigger", ("r1", "new"), selection="a")
    story.did(key, "cancel", OK, run_id="r1")
    story.did(key, "retry", OK, run_id="r1")
    story.did(key, "run", ("r1", False, 1))
    assert story.bad == []
    story.did(key, "run", ("r1", False, 2))
    assert story.bad == [key]


def test_update_by_name_that_changes_the_renamed_asset_is_rejected(story: Story) -> None:
    """The update was called while n0 was the first asset, and ends when n0 is the second."""
    create(story, "n0", "first")
    update = story.call(NAMESPACE, "update_asset", name="n0", value="new")
    story.did(NAMESPACE, "rename_asset", OK, name="n0", new="n1")
    create(story, "n0", "second")
    get(story, "n1", ("first", "first", ()))
    story.end(update, OK)
    fine = Story()
    fine.operations, fine.now = list(story.operations), story.now
    get(fine, "n0", ("second", "new", ()))
    assert fine.bad == []
    get(story, "n1", ("first", "new", ()))
    get(story, "n0", ("second", "second", ()))
    assert story.bad == [NAMESPACE]


def test_update_by_name_before_the_rename_is_accepted(story: Story) -> None:
    create(story, "n0", "first")
    update = story.call(NAMESPACE, "update_asset", name="n0", value="new")
    story.did(NAMESPACE, "rename_asset", OK, name="n0", new="n1")
    story.end(update, OK)
    get(story, "n1", ("first", "new", ()))
    assert story.bad == []


# Orchestration


def test_deployments_are_numbered_without_gaps() -> None:
    story = Story()
    story.did("deployments", "current_deployment", (0, ""))
    story.did("deployments", "deploy", (1, True), manifest="m1")
    story.did("deployments", "deploy", (1, False), manifest="m1")
    calls = [story.call("deployments", "deploy", manifest=m) for m in ("m2", "m3")]
    story.end(calls[0], (3, True))
    story.end(calls[1], (2, True))
    story.did("deployments", "current_deployment", (3, "m2"))
    assert story.bad == []
    story.did("deployments", "deploy", (5, True), manifest="m4")
    assert story.bad == ["deployments"]


def test_run_key_starts_one_run() -> None:
    story = Story()
    story.did("run k", "run", MISSING)
    story.call("run k", "trigger", selection="a")
    story.did("run k", "trigger", ("r1", "replayed"), selection="a")
    story.did("run k", "trigger", "conflict", selection="b")
    story.did("run k", "trigger", ("r1", "either"), selection="a")
    story.did("run k", "retry", "active", run_id="r1")
    story.did("run k", "cancel", OK, run_id="r1")
    story.did("run k", "cancel", "finished", run_id="r1")
    story.did("run k", "run", ("r1", False, 0))
    assert story.bad == []
    story.did("run k", "trigger", ("r2", "new"), selection="a")
    assert story.bad == ["run k"]


def test_two_are_told_that_they_cancelled_a_run_only_if_they_did_so_at_once() -> None:
    story = Story()
    story.did("run k", "trigger", ("r1", "new"), selection="a")
    calls = [story.call("run k", "cancel", run_id="r1") for _ in range(3)]
    story.end(calls[0], OK)
    story.end(calls[1], OK)
    story.end(calls[2], "finished")
    story.did("run k", "cancel", "finished", run_id="r1")
    story.did("run k", "run", ("r1", False, 0))
    assert story.bad == []
    story.did("run k", "cancel", OK, run_id="r1")
    assert story.bad == ["run k"]


def test_output_is_decided_once() -> None:
    story = Story()
    story.did("output m", "output", "held")
    calls = [story.call("output m", op) for op in ("approve", "reject")]
    for number, output in zip(calls, ("decided", OK), strict=True):
        story.end(number, output)
    story.did("output m", "output", "rejected")
    assert story.bad == []
    story.did("output m", "output", "approved")
    assert story.bad == ["output m"]


def test_partition_keys_are_a_set() -> None:
    story = Story()
    story.did("keys c", "add_keys", OK, keys=("a", "b"))
    story.did("keys c", "remove_keys", OK, keys=("a", "z"))
    story.did("keys c", "list_keys", ("b",))
    assert story.bad == []
    story.did("keys c", "list_keys", ("a", "b"))
    assert story.bad == ["keys c"]


# Against a search without ideas


def brute_force(operations: list[Operation]) -> bool:
    """Try every order of every subset of the open operations."""
    model = Model()
    closed = [o for o in operations if not o.open]
    maybe = [o for o in operations if o.open]
    for count in range(len(maybe) + 1):
        for chosen in itertools.combinations(maybe, count):
            for order in itertools.permutations([*closed, *chosen]):
                if _in_time(order) and _explains(model, order):
                    return True
    return False


def _in_time(order: tuple[Operation, ...]) -> bool:
    pairs = itertools.combinations(order, 2)
    return all(later.end is None or later.end >= earlier.call for earlier, later in pairs)


def _explains(model: Model, order: tuple[Operation, ...]) -> bool:
    state: Any = model.start(NAMESPACE)
    for operation in order:
        state = model.step(state, operation)
        if state is None:
            return False
    return True


def random_history(rng: random.Random) -> list[Operation]:
    """Up to six operations with outputs that may or may not fit."""
    operations: list[Operation] = []
    for number in range(rng.randint(2, 6)):
        call = rng.randrange(12)
        end = None if rng.random() < 0.2 else call + rng.randint(1, 8)
        given, output = rng.choice(
            [
                (SALES, OK),
                (SALES, EXISTS),
                ({"op": "drop_namespace"}, OK),
                ({"op": "drop_namespace"}, MISSING),
                ({"op": "update_namespace", "value": "v1"}, OK),
                ({"op": "get_namespace"}, ("v0", 0)),
                ({"op": "get_namespace"}, ("v1", 0)),
                ({"op": "get_namespace"}, MISSING),
            ]
        )
        operations.append(
            Operation(str(number), NAMESPACE, call, end, given, None if end is None else output)
        )
    return operations


def test_verdicts_agree_with_a_search_of_all_orders() -> None:
    rng = random.Random(5)
    verdicts = {True: 0, False: 0}
    for _ in range(600):
        operations = random_history(rng)
        fine = violations(operations, Model()) == []
        assert fine == brute_force(operations), operations
        verdicts[fine] += 1
    assert min(verdicts.values()) > 50, verdicts


# Files


def test_history_survives_a_file_and_a_failure_says_how_to_check_it(
    story: Story, tmp_path: Path
) -> None:
    create(story, "a", "v1")
    story.call(NAMESPACE, "drop_asset", name="a")
    create(story, "a", "v2")
    report.check(story.operations, tmp_path / "unused")
    story.did(NAMESPACE, "list_assets", (("a", "v1", "v2"),))
    file = tmp_path / "history.jsonl"
    with pytest.raises(AssertionError, match=r"python -m tests\.linearizability"):
        report.check(story.operations, file)
    assert history.read(file) == story.operations
    assert not (tmp_path / "unused").exists()
