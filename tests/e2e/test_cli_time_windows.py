"""Hours, days and months that read each other, as a user types it."""

from __future__ import annotations

from tests.e2e.conftest import Servo

METER = """
import pyarrow as pa

from servo import AssetContext, AssetIn, asset, by_dimension, daily, hourly, monthly, time_window

NAMESPACE = "meter"
BERLIN = "Europe/Berlin"
MONTHS = monthly("month", start="2025-03-01", end="2025-05-01", timezone=BERLIN)


@asset(partitions=hourly("time", start="2025-03-01", end="2025-05-01"))
def readings(ctx: AssetContext) -> pa.Table:
    return pa.table({"kwh": [ctx.config.get("kwh", 1)]})


@asset(partitions=daily("time", start="2025-03-01", end="2025-05-01", timezone=BERLIN))
def days(readings: AssetIn["readings"]) -> pa.Table:
    return pa.table({"kwh": [sum(readings.arrow()["kwh"].to_pylist())]})


@asset(partitions=MONTHS)
def months(days: AssetIn["days", by_dimension(time=time_window("month"))]) -> pa.Table:
    return pa.table({"kwh": [sum(days.arrow()["kwh"].to_pylist())]})


@asset(partitions=daily("time", start="2025-03-01", end="2025-05-01", timezone=BERLIN))
def shares(day: AssetIn["days"], month: AssetIn["months", time_window()]) -> pa.Table:
    return pa.table({"share": [day.arrow()["kwh"][0].as_py() / month.arrow()["kwh"][0].as_py()]})
"""
HOURS = ("-p", "time=2025-03-29T23..2025-03-30T21", "-p", "time=2025-04-01T00..2025-04-01T03")
DAYS = ("-p", "time=2025-03-30,2025-04-01")
MONTHS = ("-p", "month=2025-03..2025-04")


def test_a_day_reads_its_hours_and_puts_its_own_month_out_of_date(servo: Servo) -> None:
    (servo.directory / "meter.py").write_text(METER)
    servo.json("run", "meter.readings", "--deploy", *HOURS)
    servo.json("run", "meter.days", "-p", "time=2025-03-30")
    (read,) = servo.json("lineage", "inputs", "meter.days")["read"]
    assert [each["partition"][7:20] for each in read["inputs"]] == [
        "2025-03-29T23",
        *(f"2025-03-30T{hour:02}" for hour in range(22)),
    ]
    servo.json("run", "meter.days", "-p", "time=2025-04-01")
    servo.json("run", "meter.months", *MONTHS)
    servo.json("run", "meter.shares", "-p", "time=2025-04-01")
    shares = servo.json("lineage", "inputs", "meter.shares")["read"]
    assert {each["partition"] for read in shares for each in read["inputs"]} == {
        "month=d:2025-04-01",
        "time=d:2025-04-01",
    }

    servo.json("run", "meter.readings", "-p", "time=2025-04-01T05", "--config", "kwh=7")
    plan = servo.text("plan", "meter.days", "meter.months", *DAYS, *MONTHS)
    assert "2 tasks to run, 2 up to date" in plan
    run = servo.json("run", "meter.days", "meter.months", *DAYS, *MONTHS)
    assert (run["tasks_succeeded"], run["tasks_reused"]) == (2, 2)

    refusal = servo.error("plan", "meter.days", "-p", "time=2025-04-10", code=2)
    assert (
        "meter.days reads meter.readings time=t:2025-04-09T22:00:00.000000Z to "
        "time=t:2025-04-10T21:00:00.000000Z, which have no data yet" in refusal["message"]
    )


def test_weeks_of_months_are_refused_with_the_reason(servo: Servo) -> None:
    weeks = METER.replace('daily("time", start="2025-03-01"', 'weekly("time", start="2025-03-03"')
    (servo.directory / "meter.py").write_text(weeks.replace("daily, hourly", "weekly, hourly"))
    problems = servo.json("validate", code=1)["problems"]
    assert [p["asset"] for p in problems if "a week may be in two months" in p["message"]] == [
        "meter.months",
        "meter.shares",
    ]
