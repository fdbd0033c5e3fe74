"""The documentation site can be built, needs no other host, and describes what there is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import sdk_reference

ROOT = Path(__file__).resolve().parents[2]
RESOURCE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=[\"']?(https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    docs = ROOT / "docs"
    pages = {file.relative_to(docs).with_suffix(".html") for file in docs.rglob("*.md")}
    assert len(pages) > 80
    assert {str(page) for page in pages if not (site / page).is_file()} == set()
    home = (site / "index.html").read_text("utf-8")
    assert {str(page) for page in pages if f'href="{page.as_posix()}"' not in home} <= {
        "index.html"
    }


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    files = [*site.rglob("*.html")]
    loading = [
        (file.name, match[0])
        for file in files
        for match in RESOURCE.finditer(file.read_text("utf-8"))
    ]
    assert loading == []
    styles = "".join(file.read_text("utf-8") for file in site.rglob("*.css"))
    assert re.findall(r"url\(\s*[\"']?https?:[^)]*\)|@import[^;]*https?:", styles) == []
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def test_links_into_the_repository_lead_to_copies(site: Path) -> None:
    page = (site / "guides" / "shop.html").read_text("utf-8")
    targets = re.findall(r'href="(\.\./repository/[^"]+)"', page)
    assert len(targets) > 5
    assert [each for each in targets if not (site / "guides" / each).is_file()] == []


def test_the_reference_of_the_sdk_is_about_the_sdk() -> None:
    """After a change that is meant: `ARCO_UPDATE_GOLDEN=1 pytest tests/unit/test_docs_site.py`."""
    text = sdk_reference.page()
    if os.environ.get("ARCO_UPDATE_GOLDEN"):
        sdk_reference.PAGE.write_text(text, "utf-8")
    assert sdk_reference.PAGE.read_text("utf-8") == text
