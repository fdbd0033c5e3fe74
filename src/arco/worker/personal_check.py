"""A check for personal data that flows into columns that are not classified."""

from __future__ import annotations

from arco.lineage.personal_flow import Label, passed_on
from servo.contract.task import CheckResult, ColumnLineage, Lineage, PersonalRule, TaskRequest

CHECK = "personal_data"


def personal_data_check(request: TaskRequest, lineage: Lineage | None) -> list[CheckResult]:
    """The result of comparing an output with what is personal in its inputs."""
    rule = request.personal
    if rule is None or lineage is None:
        return []
    classified = {*rule.classified, *(column.name for column in request.columns if column.pii)}
    flows = {
        each.column: kinds
        for each in lineage.columns
        if each.column not in classified and (kinds := _kinds(rule, each))
    }
    if not flows:
        return [CheckResult(name=CHECK, kind=CHECK, passed=True, method="catalog")]
    texts = [f"{column} gets {text}" for column, text in flows.items()]
    return [
        CheckResult(
            name=CHECK,
            kind=CHECK,
            passed=False,
            status="failed",
            severity="error" if rule.policy == "refuse" else "warning",
            action="quarantine" if rule.policy == "refuse" else "warn",
            columns=tuple(flows),
            message="; ".join(texts) + ": declare it (pii=), mask it, or say that it is not "
            'personal (pii="none")',
            method="catalog",
        )
    ]


def _kinds(rule: PersonalRule, column: ColumnLineage) -> str:
    """`email of shop.customers.email`: what flows into a column of the output."""
    texts = []
    for source in column.sources:
        for personal in rule.inputs.get(source.asset, ()):
            label = Label(frozenset(personal.pii))
            if personal.column == source.column and (
                kinds := passed_on(label, source.kind, source.masked).pii
            ):
                texts.append(f"{', '.join(sorted(kinds))} of {source.asset}.{source.column}")
    return ", ".join(dict.fromkeys(texts))
