"""What people decide about outputs that are held, and which versions they hold themselves."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.data import require_held
from arco.api.routes import Parameters, write
from arco.api.writes.automation_writes import ReasonBody
from arco.api.writes.run_writes import ReasonText
from arco.api.writing import WriteAnswer, Writing
from arco.errors import Invalid, NotFound
from arco.execution.reader import ExecutionReader
from arco.execution.states import HoldStatus
from arco.execution.tables import QuarantineRow
from arco.security.permissions import Permission
from servo.contract.keys import AssetKey


class HeldWriteParameters(Parameters, frozen=True, kw_only=True):
    materialization_id: Annotated[str, Meta(min_length=1, max_length=64)]


def approve_output(
    writing: Writing, parameters: HeldWriteParameters, body: ReasonBody
) -> WriteAnswer[QuarantineRow]:
    """Approve a held output. It becomes current, unless a newer version is."""
    return _decide(writing, parameters.materialization_id, True, body.reason)


def reject_output(
    writing: Writing, parameters: HeldWriteParameters, body: ReasonBody
) -> WriteAnswer[QuarantineRow]:
    """Reject a held output permanently."""
    return _decide(writing, parameters.materialization_id, False, body.reason)


def release_output(
    writing: Writing, parameters: HeldWriteParameters, body: ReasonBody
) -> WriteAnswer[QuarantineRow]:
    """Release a version that was put into quarantine by hand.

    It becomes current, unless a newer version is. A released version does not
    change.
    """
    held = require_held(writing.view, writing.visible, parameters.materialization_id)
    writing.allow_asset(held.asset_key)
    if not held.held_by:
        raise Invalid(
            f"{held.materialization_id} is held by checks, not by a person",
            hint="approve or reject it",
        )
    if held.status == HoldStatus.APPROVED:
        return WriteAnswer(held, writing.view.generation)
    return _decide(writing, parameters.materialization_id, True, body.reason)


class QuarantineParameters(Parameters, frozen=True, kw_only=True):
    asset: AssetName


class QuarantineBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    materialization_id: Annotated[str, Meta(min_length=1, max_length=64)]
    reason: Annotated[ReasonText, Meta(min_length=1)]


def quarantine_version(
    writing: Writing, parameters: QuarantineParameters, body: QuarantineBody
) -> WriteAnswer[QuarantineRow]:
    """Put a good version into quarantine, so that it is no longer read.

    If it is current, the previous good version becomes current again. A held version does not
    change.
    """
    AssetKey.parse(parameters.asset)
    writing.allow_asset(parameters.asset)
    asset_id = asset_id_of(writing.view, writing.visible, parameters.asset)
    reader = ExecutionReader(writing.view.snapshot)
    if reader.materialization(asset_id, body.materialization_id) is None:
        raise NotFound(f"{parameters.asset} has no version {body.materialization_id}")
    writing.commands.execution.quarantine(
        parameters.asset, asset_id, body.materialization_id, body.reason
    )
    view = writing.fresh()
    held = require_held(view, writing.visible, body.materialization_id)
    return WriteAnswer(held, view.generation, f"/quarantine/{body.materialization_id}")


def _decide(writing: Writing, id: str, approved: bool, reason: str) -> WriteAnswer[QuarantineRow]:
    held = require_held(writing.view, writing.visible, id)
    writing.allow_asset(held.asset_key)
    done = writing.commands.execution.decide(held, approved=approved, reason=reason)
    after = require_held(writing.fresh(), writing.visible, id)
    return WriteAnswer(after, done.generation, f"/quarantine/{id}")


_MANAGE = Permission.QUARANTINE_MANAGE
_HELD = "/quarantine/{materialization_id}"
ROUTES: tuple[Any, ...] = (
    write("POST", f"{_HELD}/approve", _MANAGE, approve_output),
    write("POST", f"{_HELD}/reject", _MANAGE, reject_output),
    write("POST", f"{_HELD}/release", _MANAGE, release_output),
    write("POST", "/assets/{asset}/quarantine", _MANAGE, quarantine_version),
)
