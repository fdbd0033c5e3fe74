"""The code in the documentation and in the README: it runs, is valid, and needs no `noqa`.

A block in Python is a project: it is imported and validated, and its tests are called. One that has
no imports of its own gets `FRAGMENT` before it, and what an HTML comment above it has:
`<!-- code before this: … -->`. A block that cannot run says why: `<!-- not run: … -->`; such blocks
are counted. Commands in blocks exist, with these options. TOML and JSON can be read.
"""

from __future__ import annotations

import json
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import servo
from arco.cli.app import tree
from arco.config import parse
from servo.discover import discover
from servo.validate import validate

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
SECTION = r"^\[(workspace|project|spark|costs|notifications|auth)"
MOST_NOT_RUN = 3
"""Blocks of Servo's own code that are not run. This number only goes down."""
FRAGMENT = f"""\
import polars as pl
import pyarrow as pa
from servo import {", ".join(name for name in servo.__all__)}

NAMESPACE = "shop"
DAYS = daily("date", start="2026-01-01")
MONTHS = monthly("month", start="2026-01-01")

"""
_BLOCK = re.compile(
    r"(?:<!-- (?P<kind>code before this|not run):?\s(?P<comment>.*?)\s?-->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)(?P<attributes>[^\n]*)\n(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)


class Block(NamedTuple):
    page: Path
    number: int
    language: str
    code: str
    before: str = ""
    not_run: str = ""

    @property
    def id(self) -> str:
        return f"{self.page.parent.name}-{self.page.stem}-{self.number}"


def blocks(page: Path) -> Iterator[Block]:
    for number, match in enumerate(_BLOCK.finditer(page.read_text("utf-8"))):
        comment = match["comment"] or ""
        yield Block(
            page,
            number,
            match["language"],
            match["code"],
            comment if match["kind"] == "code before this" else "",
            comment if match["kind"] == "not run" else "",
        )


BLOCKS = [block for page in PAGES for block in blocks(page)]
TUTORIAL = DOCS / "tutorial.md"
"""`tests/e2e/test_tutorial.py` does what it says."""
PYTHON = [
    block
    for block in BLOCKS
    if block.language == "python" and not block.not_run and block.page != TUTORIAL
]
ALONE = [block for block in PYTHON if "from servo import" in block.code]


@pytest.mark.parametrize("block", PYTHON, ids=lambda block: block.id)
def test_code_is_a_valid_project(block: Block, tmp_path: Path) -> None:
    name = f"page_{block.page.parent.name}_{block.page.stem.replace('-', '_').lower()}"
    file = tmp_path / f"{name}.py"
    is_alone = block in ALONE and not block.before
    before = "" if is_alone else f"{FRAGMENT}{block.before}\n\n"
    file.write_text(before + block.code)
    project = discover(tmp_path)
    assert validate(project) == []
    if block.page.parent.name == "reference" and is_alone:
        assert project.assets
    for test in re.findall(r"^def (test_\w+)\(\)", block.code, re.M):
        runpy.run_path(str(file))[test]()


def test_few_blocks_are_not_run() -> None:
    not_run = [b for b in BLOCKS if b.not_run and b.language == "python"]
    ours = [block.id for block in not_run if not block.not_run.startswith("code of ")]
    assert len(ours) == MOST_NOT_RUN, ours


def test_code_needs_no_exception_from_linters(tmp_path: Path) -> None:
    for number, block in enumerate(ALONE):
        if not block.before:
            (tmp_path / f"block{number}.py").write_text(block.code)
    examples = str(ROOT / "examples")
    settings = str(ROOT / "pyproject.toml")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", settings]
    done = subprocess.run(
        [*command, str(tmp_path), examples], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    files = [*PAGES, *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.py")]
    assert [str(file) for file in files if "noqa" in file.read_text("utf-8")] == []


LINKED = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", LINKED, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_links_lead_to_files_and_headings(page: Path) -> None:
    text = _BLOCK.sub("", page.read_text("utf-8"))
    broken = []
    for path, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", text):
        target = page.parent / path if path else page
        if not target.exists():
            broken.append(path)
        elif anchor and target.suffix == ".md" and anchor not in headings(target):
            broken.append(f"{path}#{anchor}")
    assert broken == []


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub and MkDocs make them."""
    lines = re.findall(r"^#+ (.+)$", _BLOCK.sub("", page.read_text("utf-8")), re.MULTILINE)
    texts = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).lower() for line in lines]
    return {re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-") for text in texts}


def test_toml_and_json_can_be_read() -> None:
    read = 0
    for block in BLOCKS:
        if block.language == "json":
            read += bool(json.loads(block.code))
        elif block.language == "toml" and re.search(SECTION, block.code, re.M):
            read += bool(parse(block.code, block.id))
        elif block.language == "toml":
            read += bool(tomllib.loads(block.code))
    assert read > 8


# -- commands -------------------------------------------------------------------------------


def commands_of(block: Block) -> Iterator[list[str]]:
    """The words of each `servo` command in a block, without what is around it in the shell."""
    lines = re.sub(r"\\\n\s*", " ", block.code).splitlines()
    for at, line in enumerate(lines):
        text = line.strip()
        if "$ " in block.code or not block.language:  # the other lines are answers
            if not text.startswith("$ "):
                continue
            text = text.removeprefix("$ ")
        if not text.startswith("servo "):
            continue
        for rest in range(len(lines) - at):  # a text in quotes may have several lines
            try:
                words = _words("\n".join([text, *lines[at + 1 : at + 1 + rest]]))
            except ValueError:
                continue
            yield words[1:]
            break


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("…", "x"), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("|&;<>"):
            break
        words.append(word)
    return words


def check_command(words: list[str]) -> None:
    """Raises if there is no such command, or it does not take these options."""
    command: Any = tree()
    context = command.make_context("servo", list(words), resilient_parsing=True)
    while hasattr(command, "commands") and words:
        name, *words = words
        assert name in command.commands, name
        command = command.commands[name]
    if hasattr(command, "commands") or "--help" in words or "--version" in words:
        return
    command.make_context(command.name, list(words), parent=context)


COMMANDS = [(block, words) for block in BLOCKS for words in commands_of(block)]


def test_commands_exist_and_take_these_options() -> None:
    assert len(COMMANDS) > 250
    wrong = []
    for block, words in COMMANDS:
        try:
            check_command(words)
        except Exception as error:
            wrong.append(f"{block.id}: servo {shlex.join(words)}: {error}")
    assert wrong == []
