"""Secrets are resolved by reference, and shown to nobody."""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from arco.errors import Invalid, Unavailable
from arco.worker.failures import TaskFailed
from arco.worker.secrets import Redactor, SecretRegistry, SecretScalar, SecretValues
from servo.contract.manifest import RETRIABLE, SecretRef

TOKEN = "s3cr€t/pa'ss\"w\\ord+x"


def resolve(ref: str, registry: SecretRegistry | None = None) -> SecretValues:
    return (registry or SecretRegistry()).resolve({"db": SecretRef.parse(ref)})


def test_the_environment_and_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", TOKEN)
    (tmp_path / "token").write_text("from a file\n")
    assert dict(resolve("env:DB_PASSWORD")) == {"db": TOKEN}
    assert dict(resolve(f"file:{tmp_path / 'token'}")) == {"db": "from a file"}


def test_other_providers_are_registered_by_name() -> None:
    class Ours:
        def resolve(self, ref: SecretRef) -> str:
            return f"value of {ref.path}"

    assert resolve("ours:a/b", SecretRegistry({"ours": Ours()}))["db"] == "value of a/b"


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("env:A?version=1#b", SecretRef(provider="env", path="A?version=1#b")),
        ("file:/a#b", SecretRef(provider="file", path="/a#b")),
        ("vault:kv/a/b", SecretRef(provider="vault", path="kv/a/b")),
        ("vault:kv/a#f", SecretRef(provider="vault", path="kv/a", field="f")),
        (
            "vault:kv/a?version=3#f",
            SecretRef(provider="vault", path="kv/a", version="3", field="f"),
        ),
    ],
)
def test_a_reference_has_provider_path_version_and_field(text: str, ref: SecretRef) -> None:
    assert SecretRef.parse(text) == ref and str(ref) == text


@pytest.mark.parametrize("text", ["vault:a#", "vault:#f", "vault:a?v=1", "vault:a?version=", "x"])
def test_half_a_reference_is_none(text: str) -> None:
    with pytest.raises(Invalid):
        SecretRef.parse(text)


def test_a_field_of_a_json_object_is_taken() -> None:
    class Json:
        def resolve(self, ref: SecretRef) -> str:
            return {"object": '{"user": "ann", "port": 5432}', "text": TOKEN}[ref.path]

    registry = SecretRegistry({"json": Json()})
    assert resolve("json:object#user", registry)["db"] == "ann"
    assert resolve("json:object#port", registry)["db"] == "5432"
    for ref, code in (("json:object#none", "missing"), ("json:text#user", "invalid")):
        with pytest.raises(TaskFailed) as caught:
            resolve(ref, registry)
        assert caught.value.info.code == f"secret.{code}"
        assert TOKEN not in f"{caught.value.info}" and "ann" not in f"{caught.value.info}"


@pytest.mark.parametrize("ref", ["env:NOT_THERE", "file:/not/there", "nowhere:x"])
def test_a_missing_secret_is_a_matter_of_configuration(ref: str) -> None:
    with pytest.raises(TaskFailed) as caught:
        resolve(ref)
    info = caught.value.info
    assert info.category == "configuration" and info.code.startswith("secret.")
    assert ref in info.message and info.hint


def test_a_provider_that_fails_does_not_tell_what_it_read() -> None:
    class Leaky:
        def resolve(self, ref: SecretRef) -> str:
            raise RuntimeError(f"cannot parse {TOKEN}")

    with pytest.raises(TaskFailed) as caught:
        resolve("leaky:x", SecretRegistry({"leaky": Leaky()}))
    assert TOKEN not in f"{caught.value.info}" and caught.value.__cause__ is None


def test_a_provider_that_is_down_may_be_asked_again() -> None:
    class Down:
        def resolve(self, ref: SecretRef) -> str:
            raise Unavailable("down")

    with pytest.raises(TaskFailed) as caught:
        resolve("down:x", SecretRegistry({"down": Down()}))
    info = caught.value.info
    assert info.category in RETRIABLE and info.code == "secret.unavailable"
    assert "down:x" in info.message


def test_the_mapping_shows_names_alone() -> None:
    values = SecretValues({"db": TOKEN})
    assert repr(values) == str(values) == "SecretValues(db=***)"
    assert values["db"] == TOKEN


@pytest.mark.parametrize(
    "form",
    [
        TOKEN,
        repr(TOKEN),
        repr(TOKEN + "'\""),
        json.dumps({"x": TOKEN}),
        json.dumps(TOKEN, ensure_ascii=False),
        json.dumps(json.dumps(TOKEN)),
        repr(TOKEN.encode()),
        quote(TOKEN),
        quote(TOKEN, safe=""),
        quote_plus(TOKEN),
        quote(TOKEN, safe="").lower(),
        base64.b64encode(TOKEN.encode()).decode(),
        base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("="),
        *(base64.b64encode(f"{'u' * n}:{TOKEN}".encode()).decode() for n in range(1, 5)),
    ],
)
def test_a_disguise_is_seen_through(form: str) -> None:
    plain = Redactor(["another"])(form)
    assert plain == form
    masked = Redactor([TOKEN])(f"before {form} after")
    assert masked.startswith("before ") and masked.endswith(" after") and "***" in masked
    assert len(masked) < len(f"before {form} after")


@pytest.mark.parametrize(
    "encoded",
    [
        TOKEN.encode().hex(),
        TOKEN.encode().hex().upper(),
        *(base64.b32encode(f"{'u' * n}{TOKEN}{'v' * n}".encode()).decode() for n in range(6)),
        base64.b32encode(TOKEN.encode()).decode().lower().rstrip("="),
        html.escape(TOKEN),
        html.escape(TOKEN, quote=False),
        html.escape(TOKEN).encode("ascii", "xmlcharrefreplace").decode(),
        repr(TOKEN.encode("utf-16")),
        repr(TOKEN.encode("utf-16-be")),
        TOKEN.encode("utf-16-le").decode("latin-1"),
        TOKEN[::-1],
        TOKEN.upper(),
        TOKEN.lower(),
    ],
)
def test_another_encoding_is_masked(encoded: str) -> None:
    masked = Redactor([TOKEN])(f"before {encoded} after")
    assert masked.startswith("before ") and masked.endswith(" after") and "***" in masked
    left = masked.removeprefix("before ").removesuffix(" after").replace("***", "")
    assert len(left) < len(encoded) / 2


def test_short_secrets_are_masked_in_their_own_case_alone() -> None:
    assert Redactor(["Hunter2"])("Hunter2 HUNTER2 hunter2 2retnuH") == "*** HUNTER2 hunter2 ***"


def test_the_longest_secret_is_masked_first() -> None:
    assert Redactor(["pass", "password1"])("password1 pass") == "*** ***"


def test_short_values_are_left_alone() -> None:
    assert Redactor(["abc", ""])("abc") == "abc"


def test_each_line_of_a_key_is_masked() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nhkiG9w0BAQEF\n-----END KEY-----"
    masked = Redactor([key])("line: hkiG9w0BAQEF and MIIEvQIBADANBgkq")
    assert masked == "line: *** and ***"


def test_metadata_is_masked_in_names_text_and_numbers() -> None:
    redact = Redactor(["hunter2", "12345678"])
    given: dict[str, SecretScalar] = {
        "a hunter2": "x hunter2",
        "n": 12345678,
        "m": 1234,
        "t": True,
        "z": None,
    }
    assert redact.mapping(given) == {
        "a ***": "x ***",
        "n": "***",
        "m": 1234,
        "t": True,
        "z": None,
    }
