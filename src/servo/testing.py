"""Assets in unit tests: call one with data in memory, without a store and without a worker.

    from servo.testing import run_asset

    def test_totals_add_up() -> None:
        result = run_asset(totals, {"orders": [{"amount": 1}, {"amount": 2}]})
        assert result.rows == [{"total": 3}]
        assert result.passed

Inputs, output and checks go through the code that a worker uses: an input has the shape that the
function asks for, an output that a worker refuses is refused here, declared columns are compared,
and checks decide by the asset's gating. It needs the package `arco` beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from servo.asset import AnyAsset
from servo.contract.manifest import GateAction
from servo.contract.partition import Scalar
from servo.contract.task import CheckStatus
from servo.errors import Invalid

__all__ = ["AssetResult", "CheckOutcome", "run_asset"]

RUNNER = "arco.worker.trial"
"""By its name: what users import does not depend on what runs it."""


@dataclass(frozen=True)
class CheckOutcome:
    """The result of a check."""

    name: str
    status: CheckStatus
    """passed, failed, or error: it could not be evaluated."""
    action: GateAction
    """By the asset's gating: continue, warn, quarantine, block, fail_task, fail_run."""
    message: str = ""
    failing: int | None = None
    input: str = ""
    """The asset that it looked at; empty for the output."""

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@dataclass(frozen=True)
class AssetResult:
    """The output of an asset, and the results of its checks."""

    data: Any
    """A `pyarrow.Table`, as it would be read back; None where there is no output."""
    metadata: Mapping[str, object] = field(default_factory=dict)
    checks: Sequence[CheckOutcome] = ()
    gate: GateAction = "continue"
    """The strongest action of the checks."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The output as dicts."""
        return [] if self.data is None else self.data.to_pylist()

    @property
    def passed(self) -> bool:
        """Whether the output would become current, without a warning."""
        return self.gate == "continue"

    @property
    def failures(self) -> tuple[CheckOutcome, ...]:
        """Checks that did not pass."""
        return tuple(each for each in self.checks if not each.passed)


def run_asset(
    asset: AnyAsset,
    inputs: Mapping[str, Any] | None = None,
    *,
    partition: Mapping[str, Scalar] | None = None,
    config: Mapping[str, Any] | None = None,
    secrets: Mapping[str, str] | None = None,
    references: Mapping[str, Any] | None = None,
    previous_rows: int | None = None,
    spark: Any = None,
) -> AssetResult:
    """Call an asset's function once, and check its output.

    `inputs` has the data of each parameter: Arrow tables, pandas or polars frames, or lists of
    rows. `config` replaces declared values. `references` has, by asset key, the data that
    `references(…)` checks look into; `previous_rows` what `row_count_change` compares with.
    A function that uses Spark needs a session, `spark=`.

    What the function raises is raised. Output that a worker would refuse raises `Invalid`.
    """
    try:
        runner = import_module(RUNNER)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != "arco":
            raise
        raise Invalid(
            "servo.testing needs the package 'arco'", hint="install it where tests run"
        ) from None
    result: AssetResult = runner.run_trial(
        asset,
        inputs or {},
        partition=partition or {},
        config=config or {},
        secrets=secrets or {},
        references=references or {},
        previous_rows=previous_rows,
        spark=spark,
    )
    return result
