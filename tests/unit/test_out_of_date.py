from __future__ import annotations

import msgspec

from arco.orchestration.out_of_date import OutOfDate, out_of_date
from servo.contract.manifest import AllUpstream, TimeWindow, Window
from tests.kit.planning import DAYS, asset, manifest, reads, time


def test_the_same_partition_is_one_of_the_same_unit() -> None:
    project = manifest(
        asset("s.days", DAYS),
        asset("s.copy", DAYS, reads("s.days")),
        asset("s.week", DAYS, reads("s.days", Window(-6, 0))),
        asset("s.months", time("month"), reads("s.days")),
        asset("s.other", time("month", name="month"), reads("s.days", TimeWindow())),
        asset("s.back", DAYS, reads("s.months")),
        asset("s.ever", reads("s.copy", AllUpstream())),
    )
    assert out_of_date(project, "s.days") == OutOfDate(
        ("s.copy",), ("s.back", "s.ever", "s.months", "s.other", "s.week")
    )
    assert out_of_date(project, "s.months") == OutOfDate((), ("s.back",))
    assert out_of_date(project, "s.nowhere") == OutOfDate()


def test_what_names_a_version_is_never_out_of_date() -> None:
    pinned = msgspec.structs.replace(reads("s.days"), version="1")
    project = manifest(
        asset("s.days", DAYS), asset("s.fixed", DAYS, pinned), asset("s.below", reads("s.fixed"))
    )
    assert out_of_date(project, "s.days") == OutOfDate()
