"""Histories of events, one for each part of the platform; `tests.golden.record` keeps them.

A new event is added to the story of its domain, or to a new one.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.stories.automation import automated, backfilled, held, scheduled
from tests.golden.stories.catalog import columns_as_expected, governed, schemas, searched, traced
from tests.golden.stories.contracts import promised
from tests.golden.stories.deploying import billed, declared, limited, notified
from tests.golden.stories.imports import imported
from tests.golden.stories.ingest import reported
from tests.golden.stories.partition_keys import keys_removed
from tests.golden.stories.runs import damaged, newest, quarantined, run_by_chance
from tests.golden.stories.security import guarded, logged_out, secrets_read
from tests.golden.stories.watching import aged, sensed
from tests.kit.runs import Folding

STORIES: dict[str, Callable[[], Folding]] = {
    "newest_versions": newest,
    "damaged_versions": damaged,
    "schedules_and_requests": scheduled,
    "backfills": backfilled,
    "limits": limited,
    "declarations": declared,
    "notifications": notified,
    "freshness": aged,
    "run_by_chance_1": run_by_chance(1),
    "run_by_chance_2": run_by_chance(2),
    "run_by_chance_3": run_by_chance(3),
    "states_of_assets": newest,
    "sensors": sensed,
    "automation_of_assets": automated,
    "lineage_edges": traced,
    "governance": governed,
    "search": searched,
    "quarantine_by_hand": quarantined,
    "schemas": schemas,
    "removed_partition_keys": keys_removed,
    "security": guarded,
    "secrets_read": secrets_read,
    "sessions": logged_out,
    "costs": billed,
    "contracts": promised,
    "held_partitions": held,
    "imports": imported,
    "columns_taken_back": quarantined,
    "columns_of_counting_versions": quarantined,
    "reports": reported,
    "columns_as_expected": columns_as_expected,
}
