"""Which edits of a project make an asset's code another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from servo.discover import build_manifest, discover

MAIN = """
    import enum
    import functools
    import re
    from collections import namedtuple
    from contextlib import contextmanager
    from dataclasses import dataclass
    from datetime import date, timedelta
    from decimal import Decimal
    from pathlib import Path

    import helpers
    import pkg.deep as deep
    import pkg.tools
    from helpers import tidy
    from servo import asset

    NAMESPACE = "a"
    HERE = Path(__file__).parent
    FOLDER = str(HERE)
    RATE = Decimal("0.2")
    SINCE = (date(2025, 1, 1), timedelta(days=3), None, 1.5, b"x")
    REGIONS = {"eu", "us", "apac", "latam"}
    NESTED = {"k": [frozenset({("a", 1), ("b", 2), ("c", 3)})]}
    PATTERN = re.compile("a+")
    UNUSED = 1

    class Color(enum.Enum):
        RED = "red"
        BLUE = "blue"

    PAINTS = {Color.RED, Color.BLUE}
    Row = namedtuple("Row", "first second")

    class Base:
        def shared(self):
            return 10

    @dataclass
    class Model(Base):
        size: int = 1

        def grow(self):
            return inner() + self.size

    class Idle:
        def rest(self):
            return 0

    def inner():
        return leaf()

    def leaf():
        return 1  # leaf

    def ping(n):
        return pong(n - 1) if n else 0

    def pong(n):
        return ping(n - 1) if n else 5

    def parse_a(x):
        return "parsed"

    PARSERS = {"a": parse_a}
    MODEL = Model()
    LOOP = []
    LOOP.append(LOOP)

    def louder(by):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(*args):
                return amplify(function(*args), by)
            return wrapper
        return decorate

    def amplify(value, by):
        return value * by

    @functools.cache
    def cached():
        return "cached"

    @contextmanager
    def opened():
        yield "opened"

    shorten = lambda text: text[:3]

    def fallback():
        return "fallback"

    def using(make=fallback):
        return make()

    def partly(a, b):
        return a - b

    subtract = functools.partial(partly, 1)

    def unused():
        return UNUSED

    @asset
    def neighbour():
        return Idle().rest()

    @asset
    def one():
        from late import lately
        total = [leaf() for _ in range(3)]
        with opened() as file:
            pass
        return (
            total, RATE, SINCE, REGIONS, NESTED, PATTERN, PAINTS, Row, Model().grow(), ping(3),
            PARSERS, MODEL, LOOP, cached(), shorten("abcd"), subtract(1), HERE, FOLDER, neighbour,
            helpers.clean(1), tidy(2), deep.dive(), pkg.tools.hammer(), lately(), __file__, using(),
        )

    @asset
    @louder(by=2)
    def two():
        return 1
"""
FILES = {
    "main.py": MAIN,
    "helpers.py": """
        LIMIT = 3
        OTHER = 4

        def clean(x):
            return x + LIMIT

        def tidy(x):
            return x * 2

        def idle(x):
            return OTHER
    """,
    "late.py": """
        from pkg.under import below

        def lately():
            return below() + 7
    """,
    "pkg/__init__.py": "",
    "pkg/deep.py": """
        from .under import below

        def dive():
            return below()
    """,
    "pkg/under.py": """
        def below():
            return 8
    """,
    "pkg/tools.py": """
        def hammer():
            return "nail"

        def saw():
            return "plank"
    """,
}


def write(root: Path, old: str = "", new: str = "") -> Path:
    """The project, with one text in place of another."""
    hits = 0
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        hits += text.count(old) if old else 1
        file.write_text(dedent(text.replace(old, new) if old else text))
    assert hits, f"{old!r} is nowhere"
    return root


def transforms(root: Path) -> dict[str, str]:
    return {asset.key: asset.transform for asset in build_manifest(discover(root)).assets}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return transforms(write(tmp_path_factory.mktemp("base")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("return 1  # leaf", "return 2", id="a function, also through others"),
        pytest.param("return ping(n - 1) if n else 5", "return n", id="a cycle of functions"),
        pytest.param('Decimal("0.2")', 'Decimal("0.3")', id="a constant"),
        pytest.param("timedelta(days=3)", "timedelta(days=4)", id="a constant in a tuple"),
        pytest.param('"latam"}', '"mena"}', id="an item of a set"),
        pytest.param('("c", 3)', '("c", 4)', id="an item deep inside"),
        pytest.param('"a+"', '"b+"', id="a regular expression"),
        pytest.param('BLUE = "blue"', 'BLUE = "navy"', id="an enum"),
        pytest.param('"first second"', '"first third"', id="a named tuple"),
        pytest.param("size: int = 1", "size: int = 2", id="a class"),
        pytest.param("inner() + self.size", "inner() - self.size", id="a method"),
        pytest.param("return 10", "return 11", id="a base class"),
        pytest.param('"parsed"', '"read"', id="a function in a dict"),
        pytest.param('return "cached"', 'return "kept"', id="a cached function"),
        pytest.param('yield "opened"', 'yield "open"', id="a context manager"),
        pytest.param("text[:3]", "text[:4]", id="a lambda"),
        pytest.param('return "fallback"', 'return "none"', id="a default"),
        pytest.param("return a - b", "return b - a", id="a partial's function"),
        pytest.param("partial(partly, 1)", "partial(partly, 2)", id="a partial's argument"),
        pytest.param("return x + LIMIT", "return x", id="a function of a module"),
        pytest.param("LIMIT = 3", "LIMIT = 4", id="a constant of another module"),
        pytest.param("return x * 2", "return x * 3", id="an imported function"),
        pytest.param("return 8", "return 9", id="through a relative import"),
        pytest.param('"nail"', '"screw"', id="a module of a package"),
        pytest.param("below() + 7", "below() + 6", id="an import inside the function"),
    ],
)
def test_what_the_function_reaches_is_its_code(
    tmp_path: Path, base: dict[str, str], old: str, new: str
) -> None:
    changed = transforms(write(tmp_path, old, new))
    assert changed["a.one"] != base["a.one"]
    assert changed["a.two"] == base["a.two"]
    assert changed["a.neighbour"] == base["a.neighbour"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("return value * by", "return value + by", id="what the wrapper calls"),
        pytest.param("amplify(function(*args), by)", "function(*args)", id="the wrapper"),
        pytest.param("@louder(by=2)", "@louder(by=3)", id="its argument"),
    ],
)
def test_decorators_are_code(tmp_path: Path, base: dict[str, str], old: str, new: str) -> None:
    changed = transforms(write(tmp_path, old, new))
    assert changed["a.two"] != base["a.two"]
    assert changed["a.one"] == base["a.one"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("UNUSED = 1", "UNUSED = 2", id="a constant"),
        pytest.param("return UNUSED", "return -UNUSED", id="a function"),
        pytest.param("OTHER = 4", "OTHER = 5", id="a constant of an imported module"),
        pytest.param("return OTHER", "return 0", id="a function of an imported module"),
        pytest.param('"plank"', '"beam"', id="a function of a module of a package"),
        pytest.param("return Idle().rest()", "return 5", id="another asset, even if named"),
        pytest.param("RATE = Dec", "# a comment\n    RATE = Dec", id="a comment, and lines"),
        pytest.param('{"eu", "us", "apac", "latam"}', '{"latam", "us", "eu", "apac"}', id="a set"),
    ],
)
def test_what_it_does_not_reach_is_not(
    tmp_path: Path, base: dict[str, str], old: str, new: str
) -> None:
    changed = transforms(write(tmp_path, old, new))
    assert changed["a.one"] == base["a.one"]
    assert changed["a.two"] == base["a.two"]


def test_the_order_of_definitions_is_none_of_its_code(tmp_path: Path, base: dict[str, str]) -> None:
    moved = "    def leaf():\n        return 1  # leaf\n"
    assert moved in MAIN
    write(tmp_path)
    text = MAIN.replace(moved, "").replace("    class Idle:", f"{moved}\n    class Idle:")
    (tmp_path / "main.py").write_text(dedent(text))
    assert transforms(tmp_path) == base


def test_the_code_is_the_same_in_every_process_and_folder(
    tmp_path: Path, base: dict[str, str]
) -> None:
    code = (
        "import sys; from pathlib import Path; from servo.discover import *;"
        "print({a.key: a.transform for a in build_manifest(discover(Path(sys.argv[1]))).assets})"
    )
    for seed in ("0", "1", "424242"):
        root = write(tmp_path / f"folder_{seed}" / "src").parent
        done = subprocess.run(
            [sys.executable, "-c", code, str(root)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        )
        assert done.stdout.strip() == str(base)


def test_a_long_chain_of_functions_is_followed(tmp_path: Path) -> None:
    def chain(last: str) -> str:
        links = [f"def f{n}():\n    return f{n + 1}()\n" for n in range(3000)]
        top = 'from servo import asset\nNAMESPACE = "a"\n'
        asset = "@asset\ndef one():\n    return f0()\n"
        return "".join([top, *links, f"def f3000():\n    return {last}\n", asset])

    (tmp_path / "main.py").write_text(chain("1"))
    first = transforms(tmp_path)
    (tmp_path / "main.py").write_text(chain("2"))
    assert transforms(tmp_path) != first


def test_a_library_inside_the_folder_counts_by_name(tmp_path: Path) -> None:
    library = tmp_path / "env" / "site-packages"
    library.mkdir(parents=True)
    main = "import sys\nsys.path.insert(0, {0!r})\nfrom reach_lib import f\n" + dedent("""
        from servo import asset
        NAMESPACE = "a"

        @asset
        def one():
            return f()
    """)
    (tmp_path / "main.py").write_text(main.format(str(library)))
    (tmp_path / "env" / "pyvenv.cfg").touch()
    found = []
    for number in (1, 2):
        (library / "reach_lib.py").write_text(f"def f():\n    return {number}\n")
        found.append(transforms(tmp_path))
        sys.modules.pop("reach_lib")
    assert found[0] == found[1]
