"""Secrets of managers are resolved over their protocols; what goes wrong is told without values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arco.worker.failures import TaskFailed
from arco.worker.secret_managers import calls
from arco.worker.secret_managers import gcp as gcp_module
from arco.worker.secret_managers.azure import AzureSecrets
from arco.worker.secrets import SecretRegistry
from servo.contract.manifest import RETRIABLE, SecretRef
from servo.contract.task import ErrorInfo
from tests.kit.secret_servers import AzureServer, GcpServer, VaultServer

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


# -- Google's Secret Manager --------------------------------------------------------------

DB = "gcp-secret-manager:projects/shop/secrets/db"


@pytest.fixture
def gcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcpServer]:
    server = GcpServer()
    server.secrets["projects/shop/secrets/db"] = {
        "1": b'{"password": "old one"}',
        "2": None,
        "3": f'{{"password": "{VALUE}"}}'.encode(),
    }
    server.secrets["projects/shop/secrets/bytes"] = {"1": b"\xff\xfe"}
    with server.running():
        file = tmp_path / "credentials.json"
        file.write_text(json.dumps(server.credentials()))
        monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", f"{server.url}/")
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        monkeypatch.delenv("CLOUDSDK_AUTH_ACCESS_TOKEN", raising=False)
        yield server


def test_google_gives_fields_and_versions_to_a_service_account(gcp: GcpServer) -> None:
    registry = SecretRegistry()
    assert resolve(f"{DB}#password", registry) == VALUE
    assert resolve(f"{DB}?version=1#password", registry) == "old one"
    assert resolve(f"{DB}/versions/1#password", registry) == "old one"
    assert len(gcp.tokens) == 1
    gcp.tokens.clear()
    assert resolve(f"{DB}/versions/latest#password", registry) == VALUE


def test_google_says_what_is_missing_or_wrong(gcp: GcpServer) -> None:
    gcp.denied.add("projects/shop/secrets/other")
    registry = SecretRegistry()
    for ref, code in (
        (f"{DB}?version=9", "missing"),
        (f"{DB}?version=2", "missing"),
        ("gcp-secret-manager:projects/shop/secrets/none", "missing"),
        ("gcp-secret-manager:projects/shop/secrets/other", "denied"),
        ("gcp-secret-manager:projects/shop/secrets/bytes", "invalid"),
        ("gcp-secret-manager:shop/db", "invalid"),
        ("gcp-secret-manager:projects/shop/secrets/../x", "invalid"),
        ("gcp-secret-manager:projects/p/locations/a.evil.example/secrets/x", "invalid"),
        (f"{DB}/versions/1?version=1", "invalid"),
    ):
        check(failure(ref, registry), code)
    gcp.broken = [503, 500, 429]
    check(failure(DB, registry), "unavailable")


def test_google_knows_tokens_machines_and_no_other_accounts(
    gcp: GcpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = tmp_path / "stranger.json"
    forged = GcpServer().credentials() | {"token_uri": f"{gcp.url}/token"}
    for document, code in (
        (forged, "denied"),
        (forged | {"private_key": "no key"}, "invalid"),
        ({"type": "external_account"}, "invalid"),
        ([], "invalid"),
    ):
        stranger.write_text(json.dumps(document))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(stranger))
        check(failure(DB), code)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("GCE_METADATA_HOST", gcp.url.removeprefix("http://"))
    assert resolve(f"{DB}#password") == VALUE
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", next(iter(gcp.tokens)))
    assert resolve(f"{DB}#password") == VALUE
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", "expired")
    check(failure(DB), "denied")


def test_google_knows_the_user_of_a_laptop(
    gcp: GcpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setattr(gcp_module, "TOKEN_URL", f"{gcp.url}/token")
    file = tmp_path / "application_default_credentials.json"
    user = {"client_id": "client-1", "client_secret": "client-secret-1"}
    for refresh, works in (("refresh-1", True), ("revoked", False)):
        document = {"type": "authorized_user", **user, "refresh_token": refresh}
        file.write_text(json.dumps(document))
        if works:
            assert resolve(f"{DB}#password") == VALUE
        else:
            check(failure(DB), "denied")


# -- Azure Key Vault ----------------------------------------------------------------------


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureServer]:
    server = AzureServer()
    server.secrets["shop/db"] = {"aaa1": "old one", "aaa2": VALUE}
    server.secrets["shop/off"] = {"aaa1": VALUE}
    server.disabled.add("shop/off")
    for name in ("AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "AZURE_KEYVAULT_DNS_SUFFIX"):
        monkeypatch.delenv(name, raising=False)
    with server.running():
        monkeypatch.setenv("AZURE_AUTHORITY_HOST", server.url)
        monkeypatch.setenv("AZURE_TENANT_ID", "tenant-1")
        monkeypatch.setenv("AZURE_CLIENT_ID", "client-1")
        monkeypatch.setenv("AZURE_CLIENT_SECRET", "client-secret-1")
        yield server


def key_vaults(server: AzureServer) -> SecretRegistry:
    return SecretRegistry({"azure-key-vault": AzureSecrets(f"{server.url}/{{vault}}")})


def test_azure_gives_versions_and_says_what_is_missing(azure: AzureServer) -> None:
    azure.denied.add("shop/other")
    registry = key_vaults(azure)
    assert resolve("azure-key-vault:shop/db", registry) == VALUE
    assert resolve("azure-key-vault:Shop/db?version=aaa1", registry) == "old one"
    assert len(azure.tokens) == 1
    azure.tokens.clear()
    assert resolve("azure-key-vault:shop/db", registry) == VALUE
    for ref, code in (
        ("azure-key-vault:shop/none", "missing"),
        ("azure-key-vault:shop/db?version=bbb", "missing"),
        ("azure-key-vault:shop/off", "missing"),
        ("azure-key-vault:shop/other", "denied"),
        ("azure-key-vault:shop", "invalid"),
        ("azure-key-vault:evil.example/db", "invalid"),
        ("azure-key-vault:shop/db/../x", "invalid"),
    ):
        check(failure(ref, registry), code)
    azure.broken = [429, 503, 500]
    check(failure("azure-key-vault:shop/db", registry), "unavailable")


def test_azure_knows_clients_federated_tokens_and_managed_identities(
    azure: AzureServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = "azure-key-vault:shop/db"
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "wrong")
    check(failure(ref, key_vaults(azure)), "denied")
    monkeypatch.delenv("AZURE_CLIENT_SECRET")
    file = tmp_path / "token"
    file.write_text("federated-1\n")
    monkeypatch.setenv("AZURE_FEDERATED_TOKEN_FILE", str(file))
    assert resolve(ref, key_vaults(azure)) == VALUE
    monkeypatch.delenv("AZURE_FEDERATED_TOKEN_FILE")
    monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", azure.url)
    assert resolve(ref, key_vaults(azure)) == VALUE
    monkeypatch.setenv("IDENTITY_ENDPOINT", f"{azure.url}/msi/token")
    monkeypatch.setenv("IDENTITY_HEADER", "header-1")
    assert resolve(ref, key_vaults(azure)) == VALUE
    monkeypatch.setenv("IDENTITY_HEADER", "wrong")
    check(failure(ref, key_vaults(azure)), "denied")
