"""Loading: a project's modules are found as in any Python program, and before others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from arco.worker.artifact import digest, extract
from arco.worker.failures import TaskFailed, classify
from arco.worker.loader import Loader
from arco.worker.packing import pack
from servo.contract.task import CodeRef
from tests.kit.bench import importing

Load = Callable[..., Any]


def code(folder: Path, module: str, name: str, root: str = "") -> CodeRef:
    return CodeRef(artifact=folder.name, module=module, name=name, root=root)


@pytest.fixture(autouse=True)
def _imports() -> Iterator[None]:
    with importing():
        yield


@pytest.fixture
def deploy(tmp_path: Path) -> Callable[[dict[str, str]], Path]:
    """An extracted artifact of these files."""

    def make(files: dict[str, str]) -> Path:
        source = tmp_path / f"source{len(list(tmp_path.iterdir()))}"
        for name, text in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_text(text)
        data = pack(source)
        folder = tmp_path / digest(data)
        extract(data, folder)
        return folder

    return make


def load(folder: Path, module: str, name: str, root: str = "") -> Any:
    return Loader(folder).asset(code(folder, module, name, root)).function


def version(number: int) -> dict[str, str]:
    """A project that imports itself in every way there is."""
    return {
        "shop/__init__.py": "",
        "shop/numbers.py": f"VALUE = {number}\n_hidden = 1\n",
        "shop/deep/__init__.py": "from shop.numbers import VALUE as DEEP\n",
        "shop/deep/leaf.py": f"LEAF = {number * 10}\n",
        "top.py": f"TOP = {number * 100}\n",
        "assets.py": """
import importlib
import top
import shop.numbers
import shop.deep.leaf as leaf
from shop import deep
from shop.numbers import *
import json, os.path

def eager():
    return [top.TOP, shop.numbers.VALUE, leaf.LEAF, deep.DEEP, VALUE, json.dumps(os.path.sep)]

def lazy():
    import shop.deep.leaf
    import shop.numbers as n
    from shop.deep import leaf as other
    import top as t
    return [shop.deep.leaf.LEAF, n.VALUE, other.LEAF, t.TOP]

def dynamic():
    return [importlib.import_module("shop.numbers").VALUE, __import__("top").TOP,
            importlib.import_module("json").__name__]

class Thing:
    pass
""",
    }


def test_a_project_imports_itself_in_every_way(deploy: Callable[[dict[str, str]], Path]) -> None:
    folder = deploy(version(1))
    assert load(folder, "assets", "eager")() == [100, 1, 10, 1, 1, '"/"']
    assert load(folder, "assets", "lazy")() == [10, 1, 10, 100]
    assert load(folder, "assets", "dynamic")() == [1, 100, "json"]


def test_a_root_inside_of_the_artifact_is_where_imports_begin(
    deploy: Callable[[dict[str, str]], Path],
) -> None:
    files = {"src/lib.py": "X = 5", "src/app.py": "from lib import X\ndef f(): return X"}
    assert load(deploy(files), "app", "f", root="src")() == 5


def test_relative_imports_and_resources_work(deploy: Callable[[dict[str, str]], Path]) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": "X = 7",
        "pkg/q.sql": "select 1",
        "pkg/b.py": """
from importlib import resources
from . import a
from .a import X
def f():
    return [a.X, X, resources.files("pkg").joinpath("q.sql").read_text(),
            resources.files(__package__).joinpath("q.sql").read_text()]
""",
    }
    assert load(deploy(files), "pkg.b", "f")() == [7, 7, "select 1", "select 1"]


def test_a_project_module_comes_before_one_that_was_imported(
    deploy: Callable[[dict[str, str]], Path],
) -> None:
    import xml.dom

    files = {
        "xml/__init__.py": "MINE = True",
        "app.py": "def f():\n import xml\n return xml.MINE, hasattr(xml, 'dom')",
    }
    assert xml.dom and load(deploy(files), "app", "f")() == (True, False)


def test_a_folder_of_data_shadows_nothing(deploy: Callable[[dict[str, str]], Path]) -> None:
    files = {
        "json/data.txt": "",
        "csv/tool.py": "",
        "ours/part.py": "Y = 3",
        "app.py": "import json, csv\nfrom ours import part\n"
        "def f(): return [json.loads('1'), csv.reader.__name__, part.Y]",
    }
    assert load(deploy(files), "app", "f")() == [1, "reader", 3]


def test_a_function_is_looked_up_once(deploy: Callable[[dict[str, str]], Path]) -> None:
    folder = deploy({"app.py": "def f(): return 1"})
    loader = Loader(folder)
    first = loader.asset(code(folder, "app", "f"))
    assert loader.asset(code(folder, "app", "f")) is first


def test_classes_keep_working_with_what_looks_them_up(
    deploy: Callable[[dict[str, str]], Path],
) -> None:
    files = {
        "app.py": """
from __future__ import annotations
import dataclasses, pickle, typing
@dataclasses.dataclass
class P:
    x: int
def f():
    return [pickle.loads(pickle.dumps(P(1))) == P(1), typing.get_type_hints(P)["x"].__name__]
"""
    }
    assert load(deploy(files), "app", "f")() == [True, "int"]


def report(folder: Path, module: str = "app", name: str = "f") -> tuple[Any, ...]:
    with pytest.raises(BaseException) as caught:
        load(folder, module, name)
    info = classify(caught.value, folder=folder)
    if info.file:
        assert "worker/loader.py" not in info.traceback and "<frozen" not in info.traceback
    return info.category, info.code, info.file, info.line, info.message, info.hint


def test_a_module_that_fails_names_its_line(deploy: Callable[[dict[str, str]], Path]) -> None:
    folder = deploy({"app.py": "import helper\n", "helper.py": "x = 1\ny = 1 / 0\n"})
    category, code, *place, message, _ = report(folder)
    assert (category, code, place) == ("user_code", "user_code.ZeroDivisionError", ["helper.py", 2])
    assert message == "division by zero"


def test_a_missing_package_is_a_matter_of_configuration(
    deploy: Callable[[dict[str, str]], Path],
) -> None:
    category, code, file, line, _, hint = report(deploy({"app.py": "\nimport nosuchlib.sub\n"}))
    assert (category, code, file, line) == ("configuration", "import.missing", "app.py", 2)
    assert "'nosuchlib'" in hint


def test_a_missing_module_of_the_project_is_the_users(
    deploy: Callable[[dict[str, str]], Path],
) -> None:
    folder = deploy({"app.py": "import pkg.gone\n", "pkg/__init__.py": ""})
    category, code, file, _, message, _ = report(folder)
    assert (category, code, file) == ("user_code", "user_code.ImportError", "app.py")
    assert message == "No module named 'pkg.gone'"


def test_a_syntax_error_names_its_line(deploy: Callable[[dict[str, str]], Path]) -> None:
    folder = deploy({"app.py": "import other", "other.py": "\n\ndef f(:\n"})
    assert report(folder)[:4] == ("user_code", "user_code.SyntaxError", "other.py", 3)


@pytest.mark.parametrize(("module", "name"), [("gone", "f"), ("app", "gone"), ("app", "X")])
def test_a_name_that_is_not_there_is_a_matter_of_configuration(
    deploy: Callable[[dict[str, str]], Path], module: str, name: str
) -> None:
    folder = deploy({"app.py": "X = 1"})
    assert report(folder, module, name)[:2] == ("configuration", "code.missing")
    with pytest.raises(TaskFailed):
        load(folder, module, name)


def test_definitions_without_a_variable_are_found_by_their_key(
    deploy: Callable[[dict[str, str]], Path],
) -> None:
    text = """
from servo import asset
NAMESPACE = "m"
def make(number):
    @asset(name=f"a{number}")
    def one() -> int:
        return number
    return one
ALL = [make(1), make(2)]
"""
    folder = deploy({"lib.py": text, "use.py": "from lib import make\nfor n in (3, 4): make(n)\n"})
    assert [load(folder, "lib", f"@m.a{n}")() for n in (1, 2)] == [1, 2]
    assert [load(folder, "use", f"@m.a{n}")() for n in (3, 4)] == [3, 4]
    with pytest.raises(TaskFailed, match=r"lib has no function '@m\.a3'"):
        load(folder, "lib", "@m.a3")
