"""What users import to declare data assets.

    from servo import AssetIn, asset, daily, row_count

    NAMESPACE = "sales"

    @asset(partitions=daily("date", start="2025-01-01"), checks=[row_count(min=1)])
    def totals(orders: AssetIn):
        return orders.arrow().group_by("sku").aggregate([("value", "sum")])

These names are the public API, and `__all__` is pinned by a test. All other modules are internal.
"""

from servo.asset import AssetDefinition, SqlAssetDefinition, asset, column, sql_asset
from servo.automation import eager, on_cron, on_missing
from servo.check import (
    accepted_values,
    check,
    expression,
    freshness,
    in_range,
    matches,
    not_null,
    references,
    row_count,
    row_count_change,
    schema_is,
    unique,
)
from servo.context import AssetContext, AssetIn, AssetOut, In
from servo.data_contract import contract
from servo.errors import Cancelled, Error, Invalid
from servo.mapping import all_upstream, by_dimension, identity, latest, time_window, window
from servo.namespaces import namespace
from servo.notify import notify
from servo.partition import daily, dynamic, hourly, monthly, static, tenant, weekly
from servo.policy import SLA, Compatibility, Freshness, Gating, Resources, Retention, Retry
from servo.schedule import schedule
from servo.sensor import (
    AssetVersion,
    RunRequest,
    SensorContext,
    SensorFile,
    SensorResult,
    asset_sensor,
    file_sensor,
    sensor,
    webhook_sensor,
)

__all__ = [
    "SLA",
    "AssetContext",
    "AssetDefinition",
    "AssetIn",
    "AssetOut",
    "AssetVersion",
    "Cancelled",
    "Compatibility",
    "Error",
    "Freshness",
    "Gating",
    "In",
    "Invalid",
    "Resources",
    "Retention",
    "Retry",
    "RunRequest",
    "SensorContext",
    "SensorFile",
    "SensorResult",
    "SqlAssetDefinition",
    "accepted_values",
    "all_upstream",
    "asset",
    "asset_sensor",
    "by_dimension",
    "check",
    "column",
    "contract",
    "daily",
    "dynamic",
    "eager",
    "expression",
    "file_sensor",
    "freshness",
    "hourly",
    "identity",
    "in_range",
    "latest",
    "matches",
    "monthly",
    "namespace",
    "not_null",
    "notify",
    "on_cron",
    "on_missing",
    "references",
    "row_count",
    "row_count_change",
    "schedule",
    "schema_is",
    "sensor",
    "sql_asset",
    "static",
    "tenant",
    "time_window",
    "unique",
    "webhook_sensor",
    "weekly",
    "window",
]
