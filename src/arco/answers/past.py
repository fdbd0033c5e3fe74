"""Answers about an older generation: their remedies look at that generation, and change nothing.

A command that changes something acts on the workspace as it is now, where the cause may be gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from arco.answers.shapes import (
    AssetExplanation,
    Cause,
    Recommendation,
    RemediationHint,
    RunExplanation,
    remedy,
)
from arco.tasks.input_failures import partition_text

AT_GENERATION: Final = frozenset(
    {
        "checks list",
        "checks show",
        "costs",
        "explain",
        "lineage show",
        "partitions versions",
        "quarantine list",
        "quarantine show",
        "runs show",
    }
)
"""Commands of remedies that read, at a generation."""
ANY_TIME: Final = frozenset({"runs logs"})
"""Those that show the same at any time."""

E = TypeVar("E", AssetExplanation, RunExplanation)


def past_explanation(explanation: E) -> E:
    """An explanation of an older generation."""
    at = explanation.generation
    causes: list[Cause] = [_past_cause(cause, at) for cause in explanation.causes]
    if causes:
        still = remedy("see whether this is still so", _explain_command(explanation))
        remedies = (*causes[0].remedies, still)
        causes[0] = replace(causes[0], remedies=remedies)
    observations = tuple(_past_cause(cause, at) for cause in explanation.observations)
    past = replace(explanation, causes=tuple(causes), observations=observations)
    if isinstance(past, AssetExplanation):
        return replace(past, recommendations=past_recommendations(past.recommendations, at))
    return past


def past_recommendations(
    recommendations: Sequence[Recommendation], generation: int
) -> tuple[Recommendation, ...]:
    return tuple(
        each if each.command is None else replace(each, command=_reading(each.command, generation))
        for each in recommendations
    )


def _past_cause(cause: Cause, generation: int) -> Cause:
    remedies = (_past_remedy(each, generation) for each in cause.remedies)
    return replace(cause, remedies=tuple(each for each in remedies if each is not None))


def _past_remedy(hint: RemediationHint, generation: int) -> RemediationHint | None:
    """Advice without a command, such as the hint of an error, is as it was."""
    if hint.command is None:
        return hint
    command = _reading(hint.command, generation)
    return None if command is None else replace(hint, command=command)


def _reading(command: str, generation: int) -> str | None:
    """The command at a generation; None for one that changes something."""
    words = command.split()[1:3]
    named = {words[0], " ".join(words)}
    if named & ANY_TIME:
        return command
    return f"{command} --generation {generation}" if named & AT_GENERATION else None


def _explain_command(explanation: AssetExplanation | RunExplanation) -> str:
    if isinstance(explanation, RunExplanation):
        return f"servo explain {explanation.run_id}"
    parts = partition_text(explanation.partition).split(",")
    chosen = "".join(f" -p {part}" for part in parts if part)
    return f"servo explain {explanation.asset}{chosen}"
