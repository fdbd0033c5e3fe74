from __future__ import annotations

import subprocess
import sys

import servo

PUBLIC = """
AssetContext AssetDefinition AssetIn AssetOut AssetVersion Cancelled Compatibility Error Freshness
Gating In Invalid Resources Retention Retry RunRequest SLA SensorContext SensorFile SensorResult
SqlAssetDefinition accepted_values all_upstream asset asset_sensor by_dimension check column
contract daily dynamic eager expression file_sensor freshness hourly identity in_range latest
matches monthly namespace not_null notify on_cron on_missing references row_count row_count_change
schedule schema_is sensor sql_asset static tenant time_window unique webhook_sensor weekly window
"""

HEAVY = ["arco", "pyspark", "pandas", "pyarrow", "polars", "numpy", "duckdb", "http", "asyncio"]


def test_what_users_import_is_pinned() -> None:
    assert sorted(servo.__all__) == PUBLIC.split()
    assert [name for name in PUBLIC.split() if not hasattr(servo, name)] == []


def test_importing_the_sdk_and_discovery_loads_nothing_heavy() -> None:
    code = f"import servo.discover, sys; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
