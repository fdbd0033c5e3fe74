from __future__ import annotations

from pathlib import Path

import pytest

from arco.config import (
    Config,
    ConfigSource,
    parse,
    render,
    resolve,
    resolve_modules,
    resolve_project,
)
from arco.errors import Invalid

NOTHING = ConfigSource()


def write(directory: Path, text: str) -> Path:
    path = directory / "arco.toml"
    path.write_text(text)
    return path


def test_option_wins_over_environment_which_wins_over_file(tmp_path: Path) -> None:
    write(tmp_path, '[workspace]\nstore = "s3://file"\ntenant = "file"\nname = "file"\n')
    env = {"ARCO_STORE": "s3://env", "ARCO_TENANT": "env"}
    found = resolve(ConfigSource(store="s3://option"), env, tmp_path)
    assert found == Config("s3://option", "env", "file")


def test_defaults_are_tenant_default_and_workspace_main(tmp_path: Path) -> None:
    assert resolve(ConfigSource("s3://b"), {}, tmp_path) == Config("s3://b", "default", "main")


def test_file_is_found_above_the_current_directory(tmp_path: Path) -> None:
    write(tmp_path, '[workspace]\nstore = "gs://b/p"\n')
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    assert resolve(NOTHING, {}, deep).store == "gs://b/p"


def test_nearest_file_counts(tmp_path: Path) -> None:
    write(tmp_path, '[workspace]\nstore = "gs://far"\n')
    near = tmp_path / "near"
    near.mkdir()
    write(near, '[workspace]\nstore = "gs://near"\n')
    assert resolve(NOTHING, {}, near).store == "gs://near"


def test_path_in_a_file_is_relative_to_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, '[workspace]\nstore = "lake"\n')
    assert resolve(NOTHING, {}, path.parent).store == str(tmp_path / "lake")


def test_empty_environment_variable_is_not_set(tmp_path: Path) -> None:
    env = {"ARCO_STORE": "s3://b", "ARCO_TENANT": ""}
    assert resolve(NOTHING, env, tmp_path).tenant == "default"


def test_own_workspace_of_a_folder_counts_where_nothing_names_a_store(tmp_path: Path) -> None:
    deep = tmp_path / "a"
    (tmp_path / ".arco").mkdir()
    deep.mkdir()
    with pytest.raises(Invalid, match="no store is configured"):
        resolve(NOTHING, {}, tmp_path)  # it has no workspace
    (tmp_path / ".arco" / "default").mkdir()
    own = Config(str(tmp_path / ".arco"))
    assert resolve(NOTHING, {}, tmp_path) == own
    assert resolve(NOTHING, {"ARCO_STORE": "s3://b"}, tmp_path) == Config("s3://b")
    with pytest.raises(Invalid, match="no store is configured"):
        resolve(NOTHING, {}, deep)  # nothing says that this is the same project
    write(tmp_path, '[project]\nname = "shop"\n')
    assert resolve(NOTHING, {}, deep) == own


def test_missing_store_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as caught:
        resolve(NOTHING, {}, tmp_path)
    assert "--store" in caught.value.hint
    assert "ARCO_STORE" in caught.value.hint
    assert "arco.toml" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[workspace]\nstroe = "x"', "unknown key 'stroe' in [workspace]", "did you mean 'store'?"),
        ("[worksapce]", "unknown key 'worksapce'", "did you mean 'workspace'?"),
        (
            'store = "x"',
            "unknown key 'store'",
            "known: workspace, project, spark, costs, notifications, auth",
        ),
        ("[workspace]\nstore = 3", "Expected `str | null`, got `int`", ""),
        ("workspace = 3", "Expected `object | null`, got `int`", ""),
        ("[workspace", "is not TOML", ""),
    ],
)
def test_bad_file_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(text, "arco.toml")
    assert message in caught.value.message
    assert caught.value.message.startswith("arco.toml")
    assert caught.value.hint == hint


def test_rendered_file_is_read_back(tmp_path: Path) -> None:
    config = Config('s3://b/"quoted"\\é', "acme", "prod")
    path = write(tmp_path, render(config))
    assert resolve(NOTHING, {}, path.parent) == config


@pytest.mark.parametrize(
    ("store", "directory"),
    [
        ("lake", Path("lake")),
        ("file:///srv/lake", Path("/srv/lake")),
        ("s3://bucket/prefix", None),
        ("memory://", None),
    ],
)
def test_directory_is_where_a_local_store_is(store: str, directory: Path | None) -> None:
    assert Config(store).directory == directory


def test_each_section_is_of_the_nearest_file_that_has_it(tmp_path: Path) -> None:
    write(tmp_path, '[workspace]\nstore = "gs://far"\n[project]\nname = "all"\n')
    near = tmp_path / "shop"
    near.mkdir()
    write(near, '[project]\nname = "shop"\n')
    assert resolve(NOTHING, {}, near).store == "gs://far"
    assert (resolve_project(near), resolve_project(tmp_path)) == ("shop", "all")


def test_project_has_a_default_and_a_valid_name(tmp_path: Path) -> None:
    assert resolve_project(tmp_path) == "main"
    write(tmp_path, "[project]\nname = 'My Shop'\n")
    with pytest.raises(Invalid, match=r"arco.toml: \[project\] name: "):
        resolve_project(tmp_path)
    write(tmp_path, "[project]\nnaem = 'shop'\n")
    with pytest.raises(Invalid, match=r"unknown key 'naem' in \[project\]"):
        resolve_project(tmp_path)


def test_modules_of_a_project_are_names_as_in_imports(tmp_path: Path) -> None:
    assert resolve_modules(tmp_path) is None
    write(tmp_path, "[project]\nmodules = ['shop', 'lib.flows']\n")
    assert resolve_modules(tmp_path) == ("shop", "lib.flows")
    write(tmp_path, "[project]\nmodules = ['shop.py', 'lib/flows']\n")
    with pytest.raises(Invalid, match=r"\[project\] modules: 'lib/flows' is not the name"):
        resolve_modules(tmp_path)
    write(tmp_path, "[project]\nmodules = 'shop'\n")
    with pytest.raises(Invalid, match="modules"):
        resolve_modules(tmp_path)
