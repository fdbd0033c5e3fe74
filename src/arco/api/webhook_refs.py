"""The webhook sensors of a workspace, and what each event for them must be signed with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from arco.automation.sensor_evaluations import definition_of
from arco.automation.sensor_tables import SENSORS, SensorStatus
from arco.log.manifest import FileRef
from arco.state.snapshot import Snapshot
from servo.contract.manifest import SecretRef


class WebhookRefs(NamedTuple):
    files: tuple[FileRef, ...] = ()
    """That they were read from."""
    secrets: Mapping[str, SecretRef] = {}
    """By the id of the sensor."""

    def refreshed(self, snapshot: Snapshot) -> WebhookRefs:
        """Those of a generation; these if no sensor has changed."""
        files = snapshot.manifest(SENSORS).recent()
        if files == self.files:
            return self
        sensors = [row for row in snapshot.all(SENSORS) if row.kind == "webhook"]
        refs = {
            row.sensor_id: definition_of(row).secret
            for row in sensors
            if row.status != SensorStatus.REMOVED
        }
        return WebhookRefs(files, {id: ref for id, ref in refs.items() if ref is not None})
