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
    write(tmp_path, one=ONE, uses="import one", broken="import servo\nraise RuntimeError")
    for name in ("one", "uses"):
        project = discover(tmp_path, [name])
        assert ([a.key for a in project.assets], project.problems) == (["a.one"], ())
    assert discover(tmp_path, ["ones"]).problems == (
        Problem("arco.toml", 1, "modules: there is no module 'ones'", "did you mean 'one'?"),
    )


def test_a_named_package_stands_for_its_modules_that_import_servo(tmp_path: Path) -> None:
    write(tmp_path, other=ONE, **{"pkg.one": ONE, "pkg.deep.two": ONE.replace("one", "two")})
    write(tmp_path, **{"pkg.script": "raise SystemExit(3)"})
    project = discover(tmp_path, ["pkg"])
    assert ([a.key for a in project.assets], project.problems) == (["a.one", "a.two"], ())


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
    use = "import servo\nfrom factory import make\nx = make('x')\ny = make('y')"
    write(tmp_path, factory=factory, use=use)
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


# -- which modules are imported -------------------------------------------------------------

WRITES = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"


def test_scripts_that_do_not_import_servo_are_never_run(tmp_path: Path) -> None:
    write(
        tmp_path,
        one=ONE,
        generate=WRITES,
        pkg__dot__generate=WRITES,
        mentions=f'"""Does not import servo."""\nservo = 1\n{WRITES}',
        guarded=f"if __name__ == '__main__':\n    from servo import asset\n{WRITES}",
        typed=f"TYPE_CHECKING = False\nif TYPE_CHECKING:\n    import servo\n{WRITES}",
    )
    project = discover(tmp_path)
    assert list(tmp_path.rglob("*.ran")) == []
    assert ([a.key for a in project.assets], project.problems, project.notes) == (["a.one"], (), ())


def test_what_a_module_does_as_a_script_is_not_done(tmp_path: Path) -> None:
    script = dedent(ONE) + "\nif __name__ == '__main__':\n    " + WRITES.replace("\n", "\n    ")
    write(tmp_path, one=script)
    assert keys(tmp_path) == ["a.one"]
    assert list(tmp_path.rglob("*.ran")) == []


def test_modules_that_may_define_assets_and_are_not_imported_are_named(tmp_path: Path) -> None:
    factory = """
        from servo import asset
        def make(name):
            @asset(namespace="a", name=name)
            def made() -> None: ...
    """
    write(tmp_path, **{"pkg.factory": factory, "pkg.use": "from .factory import make\nmake('x')"})
    write(tmp_path, late="def f():\n    from servo import asset\nf()")
    project = discover(tmp_path)
    assert project.assets == ()
    hint = "if it defines assets, import servo in it, or name it in [project] modules"
    assert project.notes == (
        Problem(
            "late.py", 1, "late was not imported: it imports servo only inside functions", hint
        ),
        Problem("pkg/use.py", 1, "pkg.use was not imported: it only imports pkg.factory", hint),
    )
    assert [a.key for a in discover(tmp_path, ["pkg.use"]).assets] == ["a.x"]


def test_ignored_files_are_not_imported(tmp_path: Path) -> None:
    write(tmp_path, one=ONE, **{"old.two": ONE, "pkg.draft_x": ONE})
    write(tmp_path, **{"pkg.two": ONE.replace("one", "two")})
    (tmp_path / ".servoignore").write_text("# comment\nold/\ndraft_*.py\n")
    assert keys(tmp_path) == ["a.one", "a.two"]


# -- definitions without a variable ------------------------------------------------------------

HELD = """
    from servo import asset, schedule, sql_asset
    NAMESPACE = "a"

    def make(name):
        @asset(name=name)
        def made() -> int:
            return name
        return made

    LISTED = [make("listed"), (make("tuple"), {"x": make("dict")})]

    class Held:
        @asset
        def inside() -> int:
            return 1

    for number in range(3):
        @asset(name=f"loop{number}")
        def one() -> int:
            return 2

    sql_asset("query", "SELECT 1 AS x")
    schedule("nightly", cron="0 2 * * *", selection=["a.query"])
"""


def test_definitions_in_lists_loops_classes_and_without_a_name_are_found(tmp_path: Path) -> None:
    manifest = build_manifest(discover(write(tmp_path, flow=HELD)))
    assert {a.key: a.code.name for a in manifest.assets} == {
        "a.dict": "@a.dict",
        "a.inside": "@a.inside",
        "a.listed": "@a.listed",
        "a.loop0": "@a.loop0",
        "a.loop1": "@a.loop1",
        "a.loop2": "one",
        "a.query": "@a.query",
        "a.tuple": "@a.tuple",
    }
    assert [each.name for each in manifest.schedules] == ["nightly"]
    assert {a.code.module for a in manifest.assets} == {"flow"}


def test_an_asset_that_is_defined_twice_is_a_problem_that_names_both_places(
    tmp_path: Path,
) -> None:
    twice = dedent(ONE) + "\n@asset\ndef one() -> int:\n    return 2\n"
    assert validate(discover(write(tmp_path, mod=twice))) == [
        Problem("mod.py", 9, "a.one is declared twice", "also in mod.py:5", "a.one")
    ]


# -- what cannot be imported --------------------------------------------------------------


def test_import_errors_become_problems_with_file_and_line(tmp_path: Path) -> None:
    write(
        tmp_path,
        one=ONE,
        syntax="import servo\ndef (:\n",
        missing="import servo\nimport nowhere_to_be_found\n",
        deep="def f():\n    raise ValueError('no')\n\nf()\n",
        indirect="import servo, deep\n",
        exits="import servo; raise SystemExit(3)",
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
    project = discover(write(tmp_path, **{name: "import servo\nraise RuntimeError"}))
    assert project.problems == (
        Problem(
            f"{name}.py", 1, f"the module {name!r} is hidden by another of that name", "rename it"
        ),
    )


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="is not a folder"):
        discover(tmp_path / "gone")


def test_a_project_with_problems_has_no_manifest_and_says_all_of_them(tmp_path: Path) -> None:
    project = discover(write(tmp_path, a="import servo, nowhere1", b="import servo, nowhere2"))
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
