"""The fold of notifications, in five stages.

asset_failures      one key for each asset: is it failing, or has it recovered?
                    The catalog adds the asset's owners and tags to what it says.
asset_costs         one key for each asset: what it cost today (`costs.py`)
run_costs           one key for each run: what it has cost so far
notification_rules  one key for all: which rules report it (`rules.py`)
alerts              one key for each rule: what is open, and the outbox (`alerts.py`)
"""

from __future__ import annotations

from arco.notifications.alerts import STAGE as ALERTS_STAGE
from arco.notifications.asset_failures import STAGE as ASSET_FAILURES_STAGE
from arco.notifications.costs import ASSET_COSTS_STAGE, RUN_COSTS_STAGE
from arco.notifications.rules import STAGE as RULES_STAGE

BEFORE_CATALOG = (ASSET_FAILURES_STAGE, ASSET_COSTS_STAGE, RUN_COSTS_STAGE)
AFTER_CATALOG = (RULES_STAGE, ALERTS_STAGE)
