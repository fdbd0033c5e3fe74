"""Which version of an input an error of Spark is about."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from arco.spark.error_info import SparkFailure
from arco.tasks.input_failures import input_damaged
from servo.contract.task import InputRef


def of_version(failure: SparkFailure, inputs: Sequence[InputRef]) -> SparkFailure:
    """A failure to read a file, with the version that it belongs to and how to run it again."""
    if failure.category != "input":
        return failure
    text = f"{failure.message}\n{failure.details}"
    for ref in inputs:
        for version in ref.materializations:
            if f"/{version.materialization_id}" in text:
                corrupt = failure.code != "input.missing"
                info = input_damaged(ref, version, failure.message, corrupt=corrupt).info
                return structs.replace(
                    failure, code=info.code, message=info.message, hint=info.hint
                )
    return failure
