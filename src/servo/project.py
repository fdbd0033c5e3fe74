"""A project: its definitions, and the problems found in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from servo.asset import AnyAsset
from servo.contract.manifest import Code
from servo.data_contract import ContractDefinition
from servo.errors import Invalid
from servo.namespaces import NamespaceDefinition
from servo.notify import NotificationDefinition
from servo.schedule import ScheduleDefinition
from servo.sensor import SensorDefinition


class Problem(Struct, frozen=True, order=True):
    """A problem that must be fixed before the project can be deployed."""

    file: str
    line: int
    message: str
    hint: str = ""
    asset: str = ""

    @classmethod
    def at(cls, code: Code, message: str, hint: str = "", asset: str = "") -> Self:
        return cls(code.file, code.line, message, hint, asset)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: {self.message}"
        if self.hint and "\n" in self.message:  # it ends with a line of SQL
            return f"{place}\n{self.hint}"
        return f"{place} ({self.hint})" if self.hint else place


class ProjectRefused(Invalid):
    """A project has problems; they are data for programs too."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        lines = "\n".join(str(problem) for problem in problems)
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        super().__init__(f"the project has {count}:\n{lines}")
        self.problems = tuple(problems)
        self.details = {"problems": msgspec.to_builtins(list(problems))}


class Project:
    """Definitions, each once. Files of `code` and of problems are relative to `root`."""

    def __init__(
        self,
        root: Path,
        *,
        imports: str = "",
        assets: Sequence[AnyAsset] = (),
        schedules: Sequence[ScheduleDefinition] = (),
        sensors: Sequence[SensorDefinition] = (),
        notifications: Sequence[NotificationDefinition] = (),
        namespaces: Sequence[NamespaceDefinition] = (),
        contracts: Sequence[ContractDefinition] = (),
        problems: Sequence[Problem] = (),
        notes: Sequence[Problem] = (),
        places: Mapping[int, tuple[str, str]] | None = None,
    ) -> None:
        self.root = root
        self.imports = imports
        """The folder that import paths start from: `src`, or empty for the root."""
        self.assets = tuple(assets)
        self.schedules = tuple(schedules)
        self.sensors = tuple(sensors)
        self.notifications = tuple(notifications)
        self.namespaces = tuple(namespaces)
        self.contracts = tuple(contracts)
        self.problems = tuple(problems)
        self.notes = tuple(notes)
        """Remarks that do not prevent a deployment."""
        self._places = places or {}

    def keys_by_name(self) -> dict[str, str]:
        """The keys of assets by their names without a namespace, where one alone has the name."""
        by_name: dict[str, list[str]] = {}
        for asset in self.assets:
            by_name.setdefault(asset.key.partition(".")[2], []).append(asset.key)
        return {name: same[0] for name, same in by_name.items() if len(same) == 1}

    def code(self, definition: Any) -> Code:
        """Where a definition can be imported from, for the manifest."""
        own: Code = definition.code
        module, name = self._places.get(id(definition), (own.module, own.name))
        return self.placed(msgspec.structs.replace(own, module=module, name=name))

    def placed(self, code: Code) -> Code:
        """The same, with its file relative to the root."""
        file = Path(code.file)
        if not file.is_relative_to(self.root):
            return code
        return msgspec.structs.replace(code, file=file.relative_to(self.root).as_posix())
