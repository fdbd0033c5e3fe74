"""Files to check."""

from __future__ import annotations

from pathlib import Path

import pytest

from arco.storage.local import LocalStore
from tests.kit.checked_files import Files


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(LocalStore(tmp_path))
