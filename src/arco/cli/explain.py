"""`servo explain`, `servo health` and `servo recommend`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import Limit, argument, command, option

if deferral.LOADED:
    from rich.text import Text

    from arco.answers.asset_health import AssetHealth, HealthStatus
    from arco.answers.shapes import (
        AssetExplanation,
        Cause,
        Priority,
        Recommendation,
        RunExplanation,
    )
    from arco.cli import render
    from arco.cli.live import partition_text
    from arco.cli.older_version import note_older_version
    from arco.cli.session import Session
    from arco.cli.short_ids import short

Selection = Annotated[
    list[str] | None, argument("SELECTION", "Assets, as in `servo run`; all by default.")
]


class HealthName(StrEnum):
    healthy = "HEALTHY"
    warning = "WARNING"
    unhealthy = "UNHEALTHY"
    unknown = "UNKNOWN"


def register(app: typer.Typer) -> None:
    command(
        app,
        "explain",
        example="servo explain shop.orders\n"
        "servo explain shop.orders -p date=2026-01-31\n"
        "servo explain 01K9ZQ3F7M",
        takes=["at"],
    )(explain)
    command(
        app,
        "health",
        example="servo health\nservo health shop.orders+ --status unhealthy",
        takes=["at"],
    )(health)
    command(
        app, "recommend", example="servo recommend\nservo recommend tag:gold --json", takes=["at"]
    )(recommend)


def explain(
    session: Session,
    subject: Annotated[
        str, argument("ASSET|RUN", "An asset, namespace.name, or a run's id or first characters.")
    ],
    partition: Annotated[
        list[str] | None,
        option(
            "KEY",
            "The partition to explain: date=2026-01-31. Default: the most relevant one.",
            "--partition",
            "-p",
        ),
    ] = None,
) -> None:
    """Explain why an asset or a run is in its state.

    An asset may be stale, failed, blocked, empty or expensive, or may differ from earlier
    outputs. The chain begins with the asset or run and ends with the first cause, with recorded
    facts and suggested commands.
    """
    answers = session.open().answers(session.at())
    explanation = answers.explain(subject, partition or ())
    note_older_version(session, answers.snapshot)
    if session.json:
        render.document(explanation)
    elif isinstance(explanation, RunExplanation):
        _show_run(explanation)
    else:
        _show_asset(explanation)


def health(
    session: Session,
    selection: Selection = None,
    status: Annotated[
        list[HealthName] | None,
        option(
            "STATUS",
            "Only these: healthy, warning, unhealthy or unknown.",
            "--status",
            case_sensitive=False,
        ),
    ] = None,
    limit: Limit = 100,
) -> None:
    """Show the health of assets, worst first.

    UNHEALTHY: the SLA or freshness policy is violated, or an output is held. WARNING: the last
    attempt or a partition failed, or less than 95 % of the recent checks passed. UNKNOWN: there
    is no version yet.
    """
    answers = session.open().answers(session.at())
    everything = answers.health(selection or ())
    names = {each.value for each in status or ()}
    healths = [each for each in everything if not names or each.status in names]
    page = answers.with_runs(healths[:limit])
    counts = Counter(each.status for each in everything)
    note_older_version(session, answers.snapshot)
    if session.json:
        render.document(
            {
                "generation": answers.snapshot.generation,
                "counts": {name: counts[name] for name in HealthStatus},
                "assets": page,
                "more": len(healths) > limit,
            }
        )
        return
    if page:
        headers = ("asset", "status", "materialized", "checks", "why")
        render.show_table(headers, map(_health_line, page), whole=("status", "materialized"))
    summary = ", ".join(f"{counts[name]:,} {name.lower()}" for name in HealthStatus if counts[name])
    render.say(summary or "no assets are deployed")
    if len(healths) > limit:
        render.note("there are more; see --limit, --status and SELECTION")


def recommend(session: Session, selection: Selection = None, limit: Limit = 100) -> None:
    """Recommend improvements, based on recorded outputs and attempts.

    Considered are retries, small files, skewed partitions, wide windows, checks that fail often
    or have never failed, and assets that no other asset reads.
    """
    answers = session.open().answers(session.at())
    recommendations = answers.recommend(selection or ())
    note_older_version(session, answers.snapshot)
    if session.json:
        render.document(
            {
                "generation": answers.snapshot.generation,
                "recommendations": recommendations[:limit],
                "more": len(recommendations) > limit,
            }
        )
        return
    if not recommendations:
        render.say("there is nothing to recommend")
        return
    _show_recommendations(recommendations[:limit])
    if len(recommendations) > limit:
        render.note("there are more; see --limit and SELECTION")


# -- for people ---------------------------------------------------------------------------------


def _status(status: HealthStatus) -> Text:
    styles = {
        HealthStatus.HEALTHY: "green",
        HealthStatus.WARNING: "bold yellow",
        HealthStatus.UNHEALTHY: "bold red",
        HealthStatus.UNKNOWN: "dim",
    }
    return Text(status, styles[status])


def _health_line(health: AssetHealth) -> tuple[object, ...]:
    rate = health.quality.pass_rate
    return (
        health.asset,
        _status(health.status),
        health.freshness.last_materialized_at,
        None if rate is None else f"{rate:.0%}",
        "; ".join(health.reasons) or None,
    )


def _show_asset(explanation: AssetExplanation) -> None:
    fresh, run = explanation.freshness, explanation.last_run
    lineage = explanation.lineage
    upstream = ", ".join(f"{each.asset} ({each.status})" for each in lineage.upstream)
    readers = ", ".join(lineage.downstream[:5])
    omitted = lineage.downstream_count - 5
    fields: dict[str, Any] = {
        "asset": explanation.asset,
        "partition": partition_text(explanation.partition) or None,
        "status": _status(explanation.status),
        "materialized": fresh.last_materialized_at,
        "freshness": None if fresh.sla is None else f"{fresh.sla}: {_within(fresh.within_sla)}",
        "last run": None if run is None else f"{run.run_id} ({run.outcome})",
        "reads": upstream or None,
        "read by": (readers + (f" and {omitted:,} more" if omitted > 0 else "")) or None,
    }
    render.show_fields({name: value for name, value in fields.items() if value is not None})
    if not explanation.causes and not explanation.observations:
        render.say(f"\n{explanation.summary}", "green")
    _show_chain(explanation.causes)
    _show_observations(explanation.observations)
    if explanation.recent_activity:
        render.show_title("recent")
        lines = [
            (
                each.at,
                partition_text(each.partition) or None,
                each.text,
                short(each.run_id) if each.run_id else None,
            )
            for each in explanation.recent_activity[:5]
        ]
        render.show(render.columns(lines))
    if explanation.recommendations:
        render.show_title("recommended")
        _show_recommendations(explanation.recommendations)


def _within(within: bool | None) -> str:
    return "fresh" if within else "stale"


def _show_run(explanation: RunExplanation) -> None:
    render.show_fields(
        {
            "run": explanation.run_id,
            "state": explanation.state,
            "triggered by": "; ".join(explanation.triggered_by),
        }
    )
    if not explanation.causes:
        render.say(f"\n{explanation.summary}", "green")
    _show_chain(explanation.causes)
    _show_observations(explanation.observations)


def _show_chain(causes: Sequence[Cause]) -> None:
    if not causes:
        return
    render.show_title("why")
    for number, cause in enumerate(causes):
        is_first_cause = number == len(causes) - 1
        mark = "first cause: " if is_first_cause and number else ""
        render.say(f"{'  ' * number}{'└ ' if number else ''}{mark}{cause.text}", "bold red")
        _show_facts(cause, "  " * (number + 1))


def _show_observations(observations: Sequence[Cause]) -> None:
    if not observations:
        return
    render.show_title("what stands out")
    for each in observations:
        render.say(f"{each.kind}: {each.text}", "yellow")
        _show_facts(each, "  ")


def _show_facts(cause: Cause, indent: str) -> None:
    facts = [f"{name}={_fact(value)}" for name, value in cause.facts.items() if value]
    if facts:
        render.say(f"{indent}{', '.join(facts)}", "dim")
    for hint in cause.remedies:
        command = f": {hint.command}" if hint.command else ""
        render.say(f"{indent}{hint.action}{command}", "cyan")


def _fact(value: object) -> str:
    return "; ".join(map(str, value)) if isinstance(value, list) else str(value)


def _show_recommendations(recommendations: Sequence[Recommendation]) -> None:
    styles = {Priority.HIGH: "bold red", Priority.MEDIUM: "yellow", Priority.LOW: "dim"}
    lines = [
        (Text(each.priority, styles[each.priority]), each.asset, each.action, each.reason)
        for each in recommendations
    ]
    headers = ("priority", "asset", "action", "reason")
    render.show_table(headers, lines, whole=("priority",))
