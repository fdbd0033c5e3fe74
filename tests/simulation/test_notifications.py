"""Orchestrators that die at any call of the store, while notifications are to be sent.

Nothing is lost; each receiver hears of a subject in the order in which things happened; what is
sent twice has the same id.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arco.storage.port import Store
from tests.kit.depth import scaled
from tests.kit.flows import check_store
from tests.kit.notifications import Watch, project
from tests.kit.simulated_run import die_everywhere, noted

RULE = "on=['asset_failed', 'recovered'], to=['ops', 'owners'], interval='1s'"
RECEIVERS = ("ops", "owners:ana@example.org")


@pytest.mark.parametrize("both", [False, True])
def test_an_orchestrator_may_die_at_any_call_between_a_failure_and_its_message(
    both: bool,
) -> None:
    every = scaled(40, 1)

    def story(dying: Callable[[Store], Store], where: str, count: int) -> None:
        if count % every:
            return
        w = Watch(project(RULE))
        w.worker()
        w.orchestrator(dying(w.store))
        if both:
            w.orchestrator()
        with noted(where):
            for failing in (True, False):
                w.run("shop.orders", failing=failing)
                w.settle()
            for receiver in RECEIVERS:
                letters = w.postbox.to(receiver)
                happened = [event for letter in letters for event, _, _ in letter.events]
                assert happened == ["asset_failed", "recovered"]
                assert [letter.sequence for letter in letters] == [1, 2][: len(letters)]
            assert {row.state for row in w.rows()} == {"DELIVERED"}
            if not count % 20:
                check_store(w.fresh())

    assert die_everywhere(story) > 20
