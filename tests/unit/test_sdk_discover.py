from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from servo.contract.manifest import Code, decode_manifest, encode_manifest
from servo.discover import build_manifest, discover
from servo.errors import Invalid
from servo.project import Problem
from servo.validate import validate

ONE = """
    from servo import asset
    NAMESPACE = "a"

    @asset
    def one() -> int:
        return 1
"""


def write(root: Path, **files: str) -> Path:
    """Files by dotted path: `pkg.mod` is pkg/mod.py."""
    for name, text in files.items():
        file = root / (name.replace("__dot__", ".").replace(".", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return root


def keys(root: Path) -> list[str]:
    return [asset.key for asset in discover(root).assets]


def test_every_module_of_the_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, **{"one": ONE, "pkg.two": ONE.replace("one", "two")})
    write(tmp_path, **{"full.__init__": ONE.replace("one", "three")})
    project = discover(tmp_path)
    assert [asset.key for asset in project.assets] == ["a.one", "a.three", "a.two"]
    assert [(project.code(asset).module, project.code(asset).file) for asset in project.assets] == [
        ("one", "one.py"),
        ("full", "full/__init__.py"),
        ("pkg.two", "pkg/two.py"),
    ]
    assert project.problems == ()


def test_imports_start_in_src_if_there_is_one(tmp_path: Path) -> None:
    write(tmp_path, **{"src.pkg.mod": ONE, "tool": "raise SystemExit(1)"})
    project = discover(tmp_path)
    manifest = build_manifest(project, artifact="ab")
    assert (manifest.root, manifest.artifact) == ("src", "ab")
    assert manifest.assets[0].code == Code(
        module="pkg.mod", name="one", file="src/pkg/mod.py", line=5
    )


def test_tests_hidden_folders_and_environments_are_left_out(tmp_path: Path) -> None:
    broken = "raise RuntimeError"
    for folder in ("tests", ".hidden", "venv", "__pycache__", "my-env"):
        write(tmp_path / folder, mod=broken)
    write(tmp_path / "odd_env", mod=broken)
    (tmp_path / "odd_env" / "pyvenv.cfg").touch()
    write(tmp_path, one=ONE, test_one=broken, one_test=broken, conftest=broken, setup=broken)
    write(tmp_path, __main__=broken)
    project = discover(tmp_path)
    assert [asset.key for asset in project.assets] == ["a.one"]
    assert project.problems == ()


def test_only_named_modules_are_imported_and_what_they_import(tmp_path: Path) -> None:
    write(tmp_path, one=ONE, uses="import one", broken="raise RuntimeError")
    assert [a.key for a in discover(tmp_path, ["one"]).assets] == ["a.one"]
    assert discover(tmp_path, ["uses"]).assets == ()
    missing = discover(tmp_path, ["gone"]).problems
    assert [(problem.file, problem.message) for problem in missing] == [
        ("gone.py", "importing gone fails: ModuleNotFoundError: No module named 'gone'")
    ]


def test_a_definition_that_is_imported_elsewhere_counts_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        b=ONE + "    alias = one\n",
        a="from b import one\nfrom b import one as other",
        c="from servo import asset\nimport b\nthing = b.one",
    )
    project = discover(tmp_path)
    assert [asset.key for asset in project.assets] == ["a.one"]
    code = project.code(project.assets[0])
    assert (code.module, code.name) == ("b", "one")
    assert validate(project) == []


def test_what_a_factory_makes_is_found_by_its_variable(tmp_path: Path) -> None:
    factory = """
        from servo import asset
        def make(name):
            @asset(name=name, namespace="a", config={"name": name})
            def made() -> None: ...
            return made
    """
    write(tmp_path, factory=factory, use="from factory import make\nx = make('x')\ny = make('y')")
    project = discover(tmp_path)
    places = {a.key: (project.code(a).module, project.code(a).name) for a in project.assets}
    assert places == {"a.x": ("use", "x"), "a.y": ("use", "y")}
    manifest = build_manifest(project)
    assert manifest.assets[0].transform != manifest.assets[1].transform


def test_schedules_sensors_and_queries_are_found(tmp_path: Path) -> None:
    text = """
        from servo import SensorContext, SensorResult, schedule, sensor, sql_asset
        numbers = sql_asset("numbers", "SELECT 1", namespace="a")
        nightly = schedule("nightly", cron="0 2 * * *", selection=[numbers])

        @sensor(selection=["a.numbers+"], interval=30)
        def watch(ctx: SensorContext) -> SensorResult:
            return SensorResult()
    """
    manifest = build_manifest(discover(write(tmp_path, mod=text)))
    assert manifest.assets[0].code == Code(module="mod", name="numbers", file="mod.py", line=3)
    assert [(s.name, s.selection, s.code.line) for s in manifest.schedules] == [
        ("nightly", ("a.numbers",), 4)
    ]
    assert [(s.name, s.interval_s, s.code.name) for s in manifest.sensors] == [
        ("watch", 30, "watch")
    ]


# -- what cannot be imported --------------------------------------------------------------


def test_import_errors_become_problems_with_file_and_line(tmp_path: Path) -> None:
    write(
        tmp_path,
        one=ONE,
        syntax="x = 1\ndef (:\n",
        missing="\nimport nowhere_to_be_found\n",
        deep="def f():\n    raise ValueError('no')\n\nf()\n",
        indirect="import deep\n",
        exits="raise SystemExit(3)",
        bad="from servo import Retry\n\nx = Retry(max_attempts=0)\n",
    )
    project = discover(tmp_path)
    assert [asset.key for asset in project.assets] == ["a.one"]
    assert validate(project) == [
        Problem(
            "bad.py",
            3,
            "Retry: max_attempts=0 is not a number from 1",
            "the first attempt counts: 1 is never retried",
        ),
        Problem("deep.py", 2, "importing deep fails: ValueError: no"),
        Problem("deep.py", 2, "importing indirect fails: ValueError: no"),
        Problem("exits.py", 1, "importing exits exits the program"),
        Problem(
            "missing.py",
            2,
            "importing missing fails: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
        ),
        Problem("syntax.py", 2, "syntax error: invalid syntax"),
    ]


@pytest.mark.parametrize("name", ["json", "msgspec", "servo"])
def test_a_module_that_another_hides_is_a_problem(tmp_path: Path, name: str) -> None:
    project = discover(write(tmp_path, **{name: "raise RuntimeError"}))
    assert project.problems == (
        Problem(
            f"{name}.py", 1, f"the module {name!r} is hidden by another of that name", "rename it"
        ),
    )


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is not a folder"):
        discover(tmp_path / "gone")


def test_a_project_with_problems_has_no_manifest_and_says_all_of_them(tmp_path: Path) -> None:
    project = discover(write(tmp_path, a="import nowhere1", b="import nowhere2"))
    with pytest.raises(Invalid, match=r"2 problems:\na\.py:1: .*nowhere1.*\nb\.py:1: .*nowhere2"):
        build_manifest(project)


# -- nothing stays ------------------------------------------------------------------------


def test_discovery_leaves_the_import_system_as_it_was(tmp_path: Path) -> None:
    write(tmp_path, **{"one": "import sys\nsys.path.append('/x')\n" + dedent(ONE), "pkg.two": ONE})
    before = (list(sys.path), list(sys.meta_path), set(sys.modules))
    discover(tmp_path)
    assert (list(sys.path), list(sys.meta_path)) == before[:2]
    assert not {"one", "pkg", "pkg.two"} & set(sys.modules)
    assert not list(tmp_path.rglob("__pycache__"))


def test_modules_that_are_imported_meanwhile_do_not_stop_discovery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Importing(ModuleType):
        """Another thread's import, at the moment when the loaded modules are looked at."""

        def __getattribute__(self, name: str) -> Any:
            if name == "__file__":
                monkeypatch.setitem(sys.modules, f"meanwhile_{len(sys.modules)}", ModuleType("m"))
            return super().__getattribute__(name)

    monkeypatch.setitem(sys.modules, "importing", Importing("importing"))
    assert [asset.key for asset in discover(write(tmp_path, one=ONE)).assets] == ["a.one"]
    assert "one" not in sys.modules


def test_what_others_imported_stays_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, host_mod=ONE)
    write(tmp_path / ".venv" / "site-packages", host_lib="VALUE = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / ".venv" / "site-packages")
    before = [importlib.import_module(name) for name in ("host_mod", "host_lib")]
    project = discover(tmp_path)
    assert [sys.modules.pop(name) for name in ("host_mod", "host_lib")] == before
    assert project.assets[0] is not before[0].one


def test_changed_code_of_the_same_size_and_second_is_seen(tmp_path: Path) -> None:
    write(tmp_path, one=ONE, lib="VALUE = 1")
    times = (tmp_path / "one.py").stat()
    first = build_manifest(discover(tmp_path))
    late = discover(tmp_path)
    write(tmp_path, one=ONE.replace("return 1", "return 2"))
    assert build_manifest(late) == first
    os.utime(tmp_path / "one.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    second = discover(tmp_path)
    assert build_manifest(second).assets[0].transform != first.assets[0].transform
    assert second.assets[0]() == 2  # type: ignore[operator]


def test_two_projects_with_modules_of_one_name_do_not_meet(tmp_path: Path) -> None:
    write(tmp_path / "x", mod=ONE)
    write(tmp_path / "y", mod=ONE.replace("one", "two"))
    assert [keys(tmp_path / "x"), keys(tmp_path / "y")] == [["a.one"], ["a.two"]]


# -- determinism --------------------------------------------------------------------------

MANY = """
    from servo import AssetIn, asset, daily, not_null, static
    NAMESPACE = "a"
    DAYS = daily("date", start="2025-01-01") * static("region", ["eu", "us"])

    @asset(tags={"z": "1", "a": "2"}, secrets={"b": "env:B", "a": "env:A"}, partitions=DAYS)
    def two(one: AssetIn["one"]) -> None: ...

    @asset(checks=[not_null("x")])
    def one() -> None: ...
"""


def test_the_manifest_is_the_same_in_every_process(tmp_path: Path) -> None:
    write(tmp_path, **{"many": MANY, "pkg.other": ONE.replace("one", "three")})
    code = (
        "import sys; from pathlib import Path; from servo.discover import *;"
        "from servo.contract.manifest import encode_manifest as e;"
        "sys.stdout.buffer.write(e(build_manifest(discover(Path(sys.argv[1])))))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "424242")
    }
    here = encode_manifest(build_manifest(discover(tmp_path)))
    assert outputs == {here}
    assert encode_manifest(decode_manifest(here)) == here


def test_the_transform_depends_on_neither_place_nor_neighbours(tmp_path: Path) -> None:
    write(tmp_path / "x", one=ONE)
    write(tmp_path / "y", **{"deep.er": "\n    # moved\n" + ONE + ONE.replace("one", "before")})
    first = build_manifest(discover(tmp_path / "x")).asset("a.one")
    second = build_manifest(discover(tmp_path / "y")).asset("a.one")
    assert first is not None
    assert second is not None
    assert first.code.line != second.code.line
    assert first.transform == second.transform
