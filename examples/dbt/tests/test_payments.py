"""Assets, called with data in memory. Run them with: python -m pytest"""

from __future__ import annotations

from loading.payments import raw_payments

from servo.testing import run_asset


def test_payments_pass_their_checks() -> None:
    assert run_asset(raw_payments).passed
