"""What a user gets for a mistake: one line, a hint, an exit code, and no traceback."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Servo


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (("admin", "sqll"), 2, "No such command 'sqll'. Did you mean 'sql'?", "servo admin --help"),
        (("admin", "fsck", "--wat"), 2, "No such option: --wat", "servo admin fsck --help"),
        (("admin", "log", "show", "x"), 2, "Invalid value for 'POSITION'", "servo admin log show"),
        (("admin", "sql"), 2, "give one SELECT, or --tables", "SELECT"),
        (("admin", "sql", "SELECT * FROM catalog.nope"), 2, "does not exist", "catalog.assets"),
        (("admin", "fsck", "--store", "s4://x"), 2, "'s4://x' is not the URL of a store", "s3://"),
        (("admin", "fsck", "--store", "nowhere"), 3, "there is no store at", "servo admin init"),
        (("admin", "fsck", "--tenant", "A/B"), 2, "'A/B' cannot name a tenant", "a-z"),
        (("admin", "snapshot", "--as-of", "x"), 2, "'x' is not a time", "2h"),
        (("admin", "snapshot", "--as-of", "1h", "-g", "1"), 2, "mutually exclusive", "one of them"),
        (("admin", "rollback", "1", "--reason", " "), 2, "the reason is empty", "--reason"),
        (("admin", "init", "--store", "/dev/null/x"), 2, "cannot be created", "may write to"),
        (("admin", "backup", "s4://x"), 2, "is not the URL of a store", "s3://"),
        (("catalog", "asset", "create", "x"), 2, "'x' is not an asset key", "namespace.name"),
        (("catalog", "asset", "create", "a.b", "--column", "c"), 2, "is not a column", "name:type"),
        (("catalog", "asset", "update", "a.b"), 2, "nothing to change", "--owner"),
        (("catalog", "namespace", "create", "A"), 2, "'A' is not a valid namespace", "a-z"),
        (("catalog", "namespace", "show", "a"), 3, "there is no namespace a", "create it"),
    ],
)
def test_mistake_is_explained(
    servo: Servo, arguments: tuple[str, ...], code: int, message: str, hint: str
) -> None:
    error = servo.error(*arguments, code=code)
    assert message in error["message"]
    assert hint in error["hint"]


def test_mistake_is_explained_to_people_in_two_lines(servo: Servo) -> None:
    done = servo.run("catalog", "namespace", "show", "sales")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: there is no namespace sales\nhint: create it first\n"


def test_missing_store_says_what_to_do(servo: Servo) -> None:
    del servo.env["ARCO_STORE"]
    error = servo.error("admin", "snapshot", code=2)
    assert error["message"] == "no store is configured"
    assert "--store" in error["hint"]


def test_mistyped_store_is_not_made(servo: Servo) -> None:
    servo.error("admin", "fsck", "--store", "typo", code=3)
    assert not (servo.directory / "typo").exists()


def test_debug_shows_the_traceback(servo: Servo) -> None:
    arguments = ("catalog", "namespace", "show", "sales")
    assert "Traceback" in servo.run(*arguments, "--debug").stderr
    servo.env["ARCO_DEBUG"] = "1"
    assert "Traceback" in servo.run(*arguments).stderr
