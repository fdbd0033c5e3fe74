"""`.servoignore`: what of a project is neither imported nor packed, in gitignore's syntax."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pathspec import GitIgnoreSpec

from servo.errors import Invalid

FILE: Final = ".servoignore"


class IgnoredFiles:
    """The patterns of a project's `.servoignore`, which stands in its root; none without one."""

    def __init__(self, root: Path) -> None:
        self._root = root
        file = root / FILE
        try:
            lines = file.read_text("utf-8").splitlines() if file.is_file() else []
            self._patterns = GitIgnoreSpec.from_lines(lines)
        except (OSError, ValueError) as error:
            hint = "write patterns as in a .gitignore"
            raise Invalid(f"{file} cannot be read: {error}", hint=hint) from None

    def file(self, path: Path) -> bool:
        """Whether a file below the root is ignored."""
        return self._patterns.match_file(path.relative_to(self._root).as_posix())

    def folder(self, path: Path) -> bool:
        """Whether a folder is: then all of it is, whatever else the patterns say."""
        return self._patterns.match_file(f"{path.relative_to(self._root).as_posix()}/")
