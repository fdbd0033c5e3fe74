"""When a cluster counts as lost: decided from what was seen, and when."""

from __future__ import annotations

import pytest

from arco.errors import Invalid
from arco.spark.cluster import Activity, ClusterWatch
from arco.spark.settings import parse

NOBODY, WORKING, IDLE = Activity(0, 2), Activity(3, 2), Activity(0, 0)


def watch(**settings: bool) -> ClusterWatch:
    return ClusterWatch(lost_s=60, first_s=600, **settings)


def test_jobs_that_wait_after_all_executors_have_gone_mean_that_the_cluster_is_lost() -> None:
    seen = watch()
    assert not seen.is_lost(WORKING, 0)
    assert [seen.is_lost(NOBODY, now) for now in (10, 40, 69, 70)] == [False, False, False, True]


def test_executors_that_come_back_begin_the_wait_anew() -> None:
    seen = watch()
    seen.is_lost(WORKING, 0)
    assert not seen.is_lost(NOBODY, 10)
    assert not seen.is_lost(WORKING, 50)
    assert not seen.is_lost(NOBODY, 80)
    assert not seen.is_lost(NOBODY, 139)
    assert seen.is_lost(NOBODY, 140)


def test_first_executors_may_take_longer() -> None:
    fresh = watch()
    assert [fresh.is_lost(NOBODY, now) for now in (0, 61, 599, 600)] == [False, False, False, True]


def test_executors_that_are_allocated_dynamically_may_take_longer_each_time() -> None:
    dynamic = watch(dynamic=True)
    dynamic.is_lost(WORKING, 0)
    assert [dynamic.is_lost(NOBODY, now) for now in (0, 61, 599, 600)] == [
        False,
        False,
        False,
        True,
    ]


def test_no_executor_is_nothing_unusual_while_no_job_waits() -> None:
    idle = watch()
    idle.is_lost(WORKING, 0)
    assert not any(idle.is_lost(IDLE, now) for now in range(0, 10_000, 100))
    assert not idle.is_lost(NOBODY, 10_000)


def test_patience_is_configured_in_seconds() -> None:
    given = parse({"master": "spark://x:7077", "executor_loss_s": 5, "first_executor_s": 50})
    assert (given.executor_loss_s, given.first_executor_s) == (5, 50)
    with pytest.raises(Invalid, match="executor_loss_s must be"):
        parse({"executor_loss_s": 0})
