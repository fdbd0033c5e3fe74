"""What the documentation site needs besides `mkdocs.yml`.

Pages that the navigation does not name are added to the section of their folder, in the order of
names. Links to files of the repository that are no pages, such as examples, lead to copies of those
files, which the site has as text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

SECTIONS = {
    "guides": "Guides",
    "concepts": "Concepts",
    "reference": "Reference",
    "comparison": "Comparison",
    "adr": "Decisions",
}
_LINK = re.compile(r"(\[[^\]]*\])\((?!https?:|#|mailto:)([^)#\s]+)(#[^)]*)?\)")
_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def on_config(config: Any) -> Any:
    docs = Path(config.docs_dir)
    for section in config.nav:
        (name, pages) = next(iter(section.items()))
        folder = next((key for key, value in SECTIONS.items() if value == name), None)
        if folder is not None:
            found = sorted(f"{folder}/{file.name}" for file in (docs / folder).glob("*.md"))
            pages += [page for page in found if page not in pages]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add copies of the repository's files that pages link to."""
    docs = Path(config.docs_dir)
    for page in [file for file in files if file.is_documentation_page()]:
        for source in _sources(docs, docs / page.src_uri):
            address = _address(docs, source)
            if files.get_file_from_path(address) is None:
                files.append(File.generated(config, address, content=_text(source)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    docs = Path(config.docs_dir)
    here = (docs / page.file.src_uri).parent

    def rewritten(match: re.Match[str]) -> str:
        text, target, _ = match.groups()
        source = _source(docs, here, target)
        if source is None:
            return match[0]
        there = os.path.relpath(docs / _address(docs, source), here)
        return f"{text}({Path(there).as_posix()})"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(rewritten, part) for part in parts)


def _sources(docs: Path, page: Path) -> list[Path]:
    text = _FENCE.sub("", page.read_text("utf-8"))
    sources = [_source(docs, page.parent, target) for _, target, _ in _LINK.findall(text)]
    return [source for source in sources if source is not None]


def _source(docs: Path, here: Path, target: str) -> Path | None:
    """The file of the repository that a link is about; None for a page of the site."""
    path = Path(os.path.normpath(here / target))
    if path.is_relative_to(docs) or not path.exists():
        return None
    return path


def _address(docs: Path, source: Path) -> str:
    return f"repository/{source.relative_to(docs.parent).as_posix()}.txt"


def _text(source: Path) -> str:
    if source.is_dir():
        names = sorted(each.name + ("/" if each.is_dir() else "") for each in source.iterdir())
        return "\n".join(name for name in names if not name.startswith((".", "__"))) + "\n"
    return source.read_text("utf-8")
