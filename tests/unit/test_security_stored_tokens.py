from __future__ import annotations

import stat
from datetime import datetime
from pathlib import Path

import pytest

from arco.errors import Invalid
from arco.security.stored_tokens import StoredToken, TokenFile

NOW = datetime(2026, 1, 2)
URL = "https://arco.example"


def test_a_token_is_kept_for_its_api_alone(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "servo" / "tokens.json")
    file.put(f"{URL}/", StoredToken("one"))
    file.put("http://127.0.0.1:8321", StoredToken("two"))
    assert file.token_for(URL, NOW) == "one"
    assert file.token_for("https://arco.example.org", NOW) == ""
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [each.name for each in file.path.parent.iterdir()] == ["tokens.json"]
    assert file.remove(URL) and not file.remove(URL)
    assert file.token_for("http://127.0.0.1:8321/", NOW) == "two"


def test_a_token_that_has_ended_is_none(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    file.put(URL, StoredToken("one", "2026-01-02T00:00:00.000000Z"))
    assert file.token_for(URL, NOW) == ""
    assert file.token_for(URL, datetime(2026, 1, 1)) == "one"


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    file.put(URL, StoredToken("one"))
    file.path.chmod(0o644)
    with pytest.raises(Invalid, match="others can read"):
        file.token_for(URL, NOW)


@pytest.mark.parametrize("url", ["http://arco.example", "https://user@arco.example", "arco", ""])
def test_tokens_go_over_tls_or_stay_here(tmp_path: Path, url: str) -> None:
    with pytest.raises(Invalid, match="not an https URL"):
        TokenFile(tmp_path / "tokens.json").put(url, StoredToken("one"))
