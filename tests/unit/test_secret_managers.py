"""Secrets of managers are resolved over their protocols; what goes wrong is told without values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from arco.worker.failures import TaskFailed
from arco.worker.secret_managers import calls
from arco.worker.secrets import SecretRegistry
from servo.contract.manifest import RETRIABLE, SecretRef
from servo.contract.task import ErrorInfo
from tests.kit.secret_servers import VaultServer

VALUE = "s3cret-of-the-shop"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "PAUSES_S", (0.0, 0.0))
    for name in ("VAULT_TOKEN", "VAULT_ROLE_ID", "VAULT_SECRET_ID", "VAULT_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


def resolve(ref: str, registry: SecretRegistry | None = None) -> str:
    return (registry or SecretRegistry()).resolve({"db": SecretRef.parse(ref)})["db"]


def failure(ref: str, registry: SecretRegistry | None = None) -> ErrorInfo:
    with pytest.raises(TaskFailed) as caught:
        resolve(ref, registry)
    info = caught.value.info
    assert ref in info.message and info.hint
    assert VALUE not in f"{info}" and caught.value.__cause__ is None
    return info


def check(info: ErrorInfo, code: str) -> None:
    assert info.code == f"secret.{code}", info
    assert (info.category in RETRIABLE) == (code == "unavailable")


# -- HashiCorp Vault ----------------------------------------------------------------------


@pytest.fixture
def vault(monkeypatch: pytest.MonkeyPatch) -> Iterator[VaultServer]:
    server = VaultServer()
    server.secrets["shop/db"] = {1: {"password": "old one"}, 2: None, 3: {"password": VALUE}}
    server.secrets["shop/two"] = {1: {"user": "ann", "password": VALUE, "port": 5432}}
    with server.running():
        monkeypatch.setenv("VAULT_ADDR", server.url)
        monkeypatch.setenv("VAULT_TOKEN", "root")
        yield server


def test_vault_gives_fields_and_versions(
    vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VAULT_NAMESPACE", "team")
    assert resolve("vault:secret/shop/db") == VALUE
    assert resolve("vault:secret/shop/db#password") == VALUE
    assert resolve("vault:secret/shop/db?version=1#password") == "old one"
    assert resolve("vault:secret/shop/two#port") == "5432"
    assert all(asked.headers["x-vault-namespace"] == "team" for asked in vault.asked)


def test_vault_says_what_is_missing_or_wrong(vault: VaultServer) -> None:
    vault.denied.add("shop/other")
    check(failure("vault:secret/shop/none#password"), "missing")
    check(failure("vault:secret/shop/db?version=9"), "missing")
    deleted = failure("vault:secret/shop/db?version=2#password")
    check(deleted, "missing")
    assert "deleted" in deleted.message
    check(failure("vault:secret/shop/db#user"), "missing")
    check(failure("vault:secret/shop/other"), "denied")
    several = failure("vault:secret/shop/two")
    check(several, "invalid")
    assert "password, port, user" in several.message
    for ref in ("vault:secret", "vault:secret/../sys/seal", "vault:secret/a?version=last"):
        check(failure(ref), "invalid")
    assert not any("sys" in asked.path for asked in vault.asked)


def test_vault_is_asked_again_while_it_is_sealed(vault: VaultServer) -> None:
    vault.broken = [503, 429]
    assert resolve("vault:secret/shop/db") == VALUE
    vault.broken = [503, 503, 500]
    check(failure("vault:secret/shop/db"), "unavailable")


def test_vault_that_is_not_there_may_be_asked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    server = VaultServer()
    with server.running():
        pass
    monkeypatch.setenv("VAULT_TOKEN", "root")
    monkeypatch.setenv("VAULT_ADDR", server.url)
    check(failure("vault:secret/shop/db"), "unavailable")
    monkeypatch.setenv("VAULT_ADDR", "not a url")
    check(failure("vault:secret/shop/db"), "invalid")
    monkeypatch.delenv("VAULT_ADDR")
    check(failure("vault:secret/shop/db"), "invalid")


def test_an_approle_logs_in_once_and_again_when_its_token_is_revoked(
    vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VAULT_TOKEN")
    check(failure("vault:secret/shop/db"), "denied")
    monkeypatch.setenv("VAULT_ROLE_ID", "role-1")
    monkeypatch.setenv("VAULT_SECRET_ID", "secret-id-1")
    registry = SecretRegistry()
    assert resolve("vault:secret/shop/db", registry) == VALUE
    assert resolve("vault:secret/shop/two#user", registry) == "ann"
    assert vault.logins == 1
    vault.tokens.clear()
    assert resolve("vault:secret/shop/db", registry) == VALUE
    assert vault.logins == 2
    monkeypatch.setenv("VAULT_SECRET_ID", "wrong")
    info = failure("vault:secret/shop/db")
    check(info, "denied")
    assert "wrong" not in info.message


def test_a_token_goes_to_no_other_server(
    vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "answer", lambda asked: (302, b""))
    check(failure("vault:secret/shop/db"), "invalid")
    assert len(vault.asked) == 1


@pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b'{"data": 1}', b"x" * (3 << 20)])
def test_bad_answers_are_not_repeated(
    body: bytes, vault: VaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vault, "answer", lambda asked: (200, body))
    assert failure("vault:secret/shop/db").code in ("secret.invalid", "secret.unavailable")


# -- AWS Secrets Manager: moto's server ---------------------------------------------------


class Aws:
    """Secrets, made with botocore over moto's server."""

    def __init__(self, url: str) -> None:
        import botocore.session

        self.url = url
        self._session = botocore.session.Session()

    def client(self, service: str) -> Any:
        return self._session.create_client(service, "eu-west-1", endpoint_url=self.url)


@pytest.fixture(scope="module")
def moto_url() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def aws(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Aws:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", moto_url)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    return Aws(moto_url)


def test_aws_gives_texts_fields_and_versions(aws: Aws) -> None:
    manager = aws.client("secretsmanager")
    first = manager.create_secret(Name="shop/db", SecretString='{"password": "old one"}')
    manager.put_secret_value(SecretId="shop/db", SecretString=f'{{"password": "{VALUE}"}}')
    manager.create_secret(Name="shop/binary", SecretBinary=VALUE.encode())
    manager.create_secret(Name="shop/bytes", SecretBinary=b"\xff\xfe")
    name = "aws-secrets-manager:shop/db"
    assert resolve(name) == f'{{"password": "{VALUE}"}}'
    assert resolve(f"{name}#password") == VALUE
    assert resolve(f"{name}?version=AWSPREVIOUS#password") == "old one"
    assert resolve(f"{name}?version={first['VersionId']}#password") == "old one"
    assert resolve(f"aws-secrets-manager:{first['ARN']}#password") == VALUE
    assert resolve("aws-secrets-manager:shop/binary") == VALUE
    check(failure("aws-secrets-manager:shop/bytes"), "invalid")
    check(failure(f"{name}?version=NO_SUCH_STAGE"), "missing")
    check(failure(f"{name}#user"), "missing")


def test_aws_says_what_is_missing_or_deleted(aws: Aws) -> None:
    manager = aws.client("secretsmanager")
    manager.create_secret(Name="going", SecretString=VALUE)
    manager.delete_secret(SecretId="going")
    check(failure("aws-secrets-manager:none"), "missing")
    check(failure("aws-secrets-manager:going"), "invalid")


def test_aws_denies_what_no_policy_allows(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    """moto checks signatures and policies here."""
    aws.client("secretsmanager").create_secret(Name="guarded", SecretString=VALUE)
    iam = aws.client("iam")
    iam.create_user(UserName="worker")
    key = iam.create_access_key(UserName="worker")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    _set_checks(aws.url, after=0)
    try:
        check(failure("aws-secrets-manager:guarded"), "denied")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        check(failure("aws-secrets-manager:guarded"), "denied")
    finally:
        _set_checks(aws.url, after=1 << 30)


def _set_checks(url: str, *, after: int) -> None:
    import httpx

    assert httpx.post(f"{url}/moto-api/reset-auth", content=str(after)).status_code == 200


def test_aws_without_region_credentials_or_a_server(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:9")
    check(failure("aws-secrets-manager:shop"), "unavailable")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    check(failure("aws-secrets-manager:shop"), "denied")
    monkeypatch.delenv("AWS_REGION")
    check(failure("aws-secrets-manager:shop"), "invalid")
