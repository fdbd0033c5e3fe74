"""What Spark is told, as data."""

from __future__ import annotations

from typing import Any

import pytest

from arco.errors import Invalid
from arco.machine import Machine
from arco.spark.settings import (
    MIB,
    SparkSettings,
    heap_mib,
    parse,
    process_conf,
    task_conf,
)

MACHINE = Machine(cores=4, memory_bytes=16 << 30)


def test_a_table_is_parsed_with_values_as_spark_wants_them() -> None:
    table = {
        "master": "spark://h:7077",
        "packages": ["org.apache.hadoop:hadoop-aws:3.5.0"],
        "fast_start": True,
        "conf": {"spark.sql.ansi.enabled": False, "spark": {"task": {"cpus": 2}}},
    }
    assert parse(table) == SparkSettings(
        master="spark://h:7077",
        packages=("org.apache.hadoop:hadoop-aws:3.5.0",),
        fast_start=True,
        conf={"spark.sql.ansi.enabled": "false", "spark.task.cpus": "2"},
    )
    assert parse({}) == SparkSettings()


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"mastr": "local"}, "unknown key 'mastr' in [spark]", "did you mean 'master'?"),
        ({"remote": "spark://h:1"}, "not a Spark Connect URL", "sc://host:15002"),
        ({"master": "sc://h:1"}, "master is a Spark Connect URL", "with remote"),
        ({"conf": {"sql.ansi": "x"}}, "start with `spark.`", "did you mean 'spark.sql.ansi'?"),
        ({"conf": {"spark.x": [1]}}, "conf spark.x must be", ""),
        ({"packages": ["hadoop-aws"]}, "not a Maven coordinate", "group:artifact:version"),
        ({"fast_start": "yes"}, "Expected `bool`", ""),
        ({"conf": "x"}, "Expected `object`", ""),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_hint(
    table: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(Invalid) as raised:
        parse(table)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_the_projects_conf_wins() -> None:
    settings = SparkSettings(conf={"spark.scheduler.mode": "FIFO"})
    assert process_conf(settings, MACHINE)["spark.scheduler.mode"] == "FIFO"
    asked = {"spark.sql.shuffle.partitions": "7"}
    assert "spark.sql.shuffle.partitions" not in task_conf(0, 4, conf=asked)


def test_jvm_options_are_added_to_the_projects_own() -> None:
    asked = SparkSettings(fast_start=True, conf={"spark.driver.extraJavaOptions": "-Dx=1"})
    options = process_conf(asked, MACHINE, jvm_options=("-Xshare:auto",))
    assert options["spark.driver.extraJavaOptions"].split() == [
        "-Xss4m",
        "-Duser.timezone=UTC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xshare:auto",
        "-Dx=1",
    ]


@pytest.mark.parametrize(
    ("master", "memory", "expected"),
    [
        ("local[*]", 16 << 30, 8192),
        ("local[*]", 1 << 30, 1024),
        ("local[*]", 512 << 30, 31744),
        ("spark://h:7077", 64 << 30, 4096),
    ],
)
def test_the_heap_follows_the_machine(master: str, memory: int, expected: int) -> None:
    assert heap_mib(SparkSettings(master=master), Machine(4, memory)) == expected


def test_only_a_driver_whose_executors_are_here_listens_on_loopback() -> None:
    def host(master: str) -> str | None:
        return process_conf(SparkSettings(master=master), MACHINE).get("spark.driver.host")

    assert host("local[2]") == host("spark://127.0.0.1:7077") == "127.0.0.1"
    assert host("spark://master:7077") is None


@pytest.mark.parametrize(
    ("input_bytes", "adaptive", "codegen", "partitions"),
    [
        (0, "false", "false", "1"),
        (10 * MIB, "false", "true", "4"),
        (64 * MIB, "true", "true", "16"),
        (10 << 30, "true", "true", "480"),
        (None, "true", "true", "32"),
    ],
)
def test_sql_settings_follow_the_size_of_the_input(
    input_bytes: int | None, adaptive: str, codegen: str, partitions: str
) -> None:
    assert task_conf(input_bytes, cores=4) == {
        "spark.sql.adaptive.enabled": adaptive,
        "spark.sql.codegen.wholeStage": codegen,
        "spark.sql.shuffle.partitions": partitions,
    }
