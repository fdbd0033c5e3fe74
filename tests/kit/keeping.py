"""Retention without thinned generations, for tests that want what is old to go."""

from __future__ import annotations

from datetime import timedelta

from arco.state.gc import GenerationRetention

NO_TIME = timedelta(0)


def keeping(
    generations: timedelta, at_least: int = 10, rejected: timedelta = timedelta(days=30)
) -> GenerationRetention:
    """Keep generations for so long, and none beyond that."""
    return GenerationRetention(generations, NO_TIME, NO_TIME, at_least, rejected)
