"""`servo init`: what it creates deploys, runs and passes its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from arco.app import Workspace
from arco.app.project_templates import TEMPLATES, create_project
from arco.cli.init import NEXT
from arco.engine import LocalEngine
from arco.orchestration.plan import PlanRequest
from arco.orchestration.states import RunState
from arco.spark.settings import SparkSettings
from arco.worker.artifact import digest
from arco.worker.packing import pack
from servo.discover import build_manifest, discover
from tests.e2e.conftest import Servo
from tests.kit.spark_cluster import jvm_options

ROOT = Path(__file__).resolve().parents[2]
FAST = SparkSettings(master="local[2]", fast_start=True, conf={"spark.driver.memory": "1g"})


def in_project(servo: Servo, template: str, name: str = "sales") -> Servo:
    """The same commands, typed in the folder of a new project, which says where its store is."""
    servo.json("init", name, "--template", template)
    project = Servo(servo.directory / name)
    del project.env["ARCO_STORE"]
    return project


def test_every_template_can_be_created_and_is_valid(servo: Servo) -> None:
    assert NEXT.keys() == set(TEMPLATES)
    for template in TEMPLATES:
        project = in_project(servo, template, f"a_{template}")
        answer = project.json("validate")
        assert (answer["valid"], answer["problems"], answer["warnings"]) == (True, [], [])
        assert answer["assets"] > 0


def test_the_person_is_shown_what_to_type_next(servo: Servo) -> None:
    text = servo.text("init", "sales")
    assert f"created the project sales in {servo.directory / 'sales'}" in text
    assert "  cd sales\n  servo dev\n" in text
    for line, _ in NEXT["starter"]:
        assert f"  {line}\n" in text


def test_a_project_has_its_name_and_a_store_that_git_ignores(servo: Servo) -> None:
    project = in_project(servo, "empty")
    assert project.text("deploy").startswith("deployed 1 of sales (")
    assert (project.directory / ".arco" / "default" / "main" / "manifests").is_dir()
    subprocess.run(["git", "init", "-q"], cwd=project.directory, check=True)
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    done = subprocess.run(
        command, cwd=project.directory, check=True, capture_output=True, text=True
    )
    assert ".arco" not in done.stdout
    packed = project.json("deploy", "--dry-run")["files"]
    assert [file["path"] for file in packed] == ["README.md", "arco.toml", "assets.py"]


def test_nothing_is_overwritten(servo: Servo) -> None:
    in_project(servo, "empty")
    error = servo.error("init", "sales", code=5)
    assert "is not empty" in error["message"]
    (servo.directory / "taken").write_text("mine")
    assert "is a file" in servo.error("init", "taken", code=5)["message"]
    assert (servo.directory / "taken").read_text() == "mine"


def test_an_empty_folder_is_filled_and_a_repository_of_git_is_empty(servo: Servo) -> None:
    here = Servo(servo.directory / "here")
    (here.directory / ".git").mkdir(parents=True)
    assert "cd " not in here.text("init", ".", "--template", "empty")
    assert (here.directory / "assets.py").is_file()


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("My-Shop",), "'My-Shop' is not a valid name of a project", "for example: my_shop"),
        (("sales", "--template", "shopp"), "there is no template 'shopp'", "did you mean 'shop'"),
        (("lake/no/../../taken/x",), "cannot be written", "choose a folder"),
    ],
)
def test_refusals_say_what_to_do(
    servo: Servo, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    (servo.directory / "taken").write_text("a file")
    error = servo.error("init", *arguments, code=2)
    assert message in error["message"]
    assert hint in error["hint"]


def test_the_empty_project_runs(servo: Servo) -> None:
    project = in_project(servo, "empty")
    assert project.json("run", "*", "--deploy")["state"] == "SUCCEEDED"


def test_lineage_goes_from_a_load_through_dbt(servo: Servo) -> None:
    project = in_project(servo, "dbt")
    assert project.json("run", "*", "--deploy")["state"] == "SUCCEEDED"
    files = ("--manifest", "target/manifest.json", "--catalog", "target/catalog.json")
    assert project.json("lineage", "import-dbt", *files)["nodes"] == 8
    impact = project.json("lineage", "impact", "raw.raw_payments.cents")["impact"]
    assert [(each["asset"], each["column"]) for each in impact] == [
        ("marts.orders", "amount"),
        ("marts.customers", "total"),
    ]
    _pass_own_tests(project.directory)


def _pass_own_tests(folder: Path) -> None:
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    env["JDK_JAVA_OPTIONS"] = jvm_options()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_the_starter_runs_and_passes_its_own_tests(tmp_path: Path) -> None:
    folder = create_project(tmp_path / "sales").folder
    artifact = pack(folder)
    manifest = build_manifest(discover(folder), digest(artifact), name="sales")
    assert [schedule.name for schedule in manifest.schedules] == ["nightly"]
    workspace = Workspace.open(str(folder / ".arco"), "default", "main", spark=FAST)
    workspace.commands.orchestration.deploy(manifest, artifact)
    engine = LocalEngine(workspace, slots=2, private=True)
    with engine.running():
        request = PlanRequest(selection=("*",), partitions=("date=2025-01-31",))
        run = workspace.commands.orchestration.trigger(request, engine_id=engine.id)
        row = engine.wait(run.run_id)
    assert (row.state, row.tasks_succeeded, row.tasks_held) == (RunState.SUCCEEDED, 3, 0)
    _pass_own_tests(folder)


def test_the_wheel_carries_every_template(tmp_path: Path) -> None:
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(built) as wheel:
        packed = set(wheel.namelist())
    for template in TEMPLATES:
        folder = ROOT / "examples" / template
        files = [file for file in folder.rglob("*") if file.is_file()]
        names = {file.relative_to(folder).as_posix() for file in files}
        names = {name for name in names if "__pycache__" not in name}
        assert names, template
        assert {f"arco/templates/{template}/{name}" for name in names} <= packed
