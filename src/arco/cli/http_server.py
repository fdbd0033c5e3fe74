"""`servo serve`: the HTTP API."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from arco.cli import deferral
from arco.cli.options import command, flag, option
from arco.cli.stop_signal import stop_on_signal

if deferral.LOADED:
    from litestar.types import ASGIApp

    from arco.api.access_log import AccessLog
    from arco.api.api_settings import WEBHOOK_SECRETS, ApiSettings
    from arco.api.application import make_app
    from arco.api.authentication import Authenticator, LocalAccess
    from arco.api.development import DevelopmentState
    from arco.api.login import Login
    from arco.api.served import KeySource, ServedWorkspace
    from arco.api.server import ApiServer
    from arco.api.serving import Binding, serve
    from arco.api.table import ROUTES
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.session import Session
    from arco.clock import Clock
    from arco.config import resolve_auth
    from arco.errors import Invalid
    from arco.ingest.openlineage import parse_namespaces
    from arco.security.authentication import (
        Directories,
        DirectorySource,
        KeyAuthenticator,
        OidcAuthenticator,
    )
    from arco.security.directory import TENANT_WORKSPACE
    from arco.security.oidc import TokenVerifier
    from arco.security.oidc_login import OidcLogin
    from arco.security.sessions import Sealer, Sessions, session_key
    from arco.security.settings import AuthSettings
    from arco.security.tables import ApiKeyRow
    from arco.tasks.failure import TaskFailed
    from arco.worker.secrets import SecretRegistry
    from servo.contract.manifest import SecretRef


def register(app: typer.Typer) -> None:
    example = (
        "servo serve\n"
        "servo serve --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem\n"
        "servo serve --host 10.0.0.5 --trusted-proxy 10.0.0.1 --serves acme/prod"
    )
    command(app, "serve", example=example, takes=["actor"])(serve_http)


def serve_http(
    session: Session,
    host: Annotated[str, option("ADDRESS", "The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, option("PORT", "0 means any free port.", min=0, max=65_535)] = 8321,
    tls_cert: Annotated[Path | None, option("FILE", "The TLS certificate, in PEM format.")] = None,
    tls_key: Annotated[
        Path | None, option("FILE", "The key of the certificate, in PEM format.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        option("ADDRESS", "Address or network of a proxy that terminates TLS. Repeatable."),
    ] = None,
    serves: Annotated[
        list[str] | None,
        option("TENANT/NAME", "A workspace to serve; default: the configured one. Repeatable."),
    ] = None,
    name: Annotated[
        list[str] | None, option("HOST", "Allowed host names; default: any. Repeatable.")
    ] = None,
    dataset_namespace: Annotated[
        list[str] | None,
        option(
            "DATASETS=NAMESPACE",
            "The namespace of assets for a namespace of OpenLineage, or one and a schema: "
            "postgres://db:5432/public=shop. Repeatable.",
        ),
    ] = None,
    webhook_secret: Annotated[
        list[str] | None,
        option(
            "PATTERN",
            "References that webhook sensors may name as their secret; default: env:WEBHOOK_*. "
            "Repeatable.",
        ),
    ] = None,
    rate: Annotated[
        float, option("N", "Maximum average requests per second of one caller.", min=0.1)
    ] = 50.0,
    send_files: Annotated[
        bool,
        flag(
            "--send-files",
            "Send table files through the server, if browsers cannot reach the store.",
        ),
    ] = False,
    drain: Annotated[
        float, option("S", "Seconds that running requests may take after SIGTERM.", min=0.0)
    ] = 20.0,
) -> None:
    """Serve the HTTP API and the web page.

    Callers authenticate with an API key (`servo auth keys`) or a token of the issuer in `[auth]` of
    `arco.toml`. On a loopback address the server also prints a token, and a link that works once.
    On any other address TLS is required, here or in a trusted proxy.

    The access log goes to stderr, as JSON lines. After SIGTERM no new connections are accepted,
    and running requests may finish.
    """
    session.require_store()
    binding = Binding(host=host, port=port, tls_cert=tls_cert, tls_key=tls_key)
    proxies = tuple(trusted_proxy or ())
    if not binding.is_loopback and not binding.has_tls and not proxies:
        raise Invalid(
            f"{host} can be reached from other machines, and the server has no TLS",
            hint="give --tls-cert and --tls-key, or --trusted-proxy for a proxy with TLS",
        )
    listening = binding.listen()
    hosts = tuple(each.lower() for each in name or ()) or binding.local_names(listening)
    settings = ApiSettings(
        trusted_proxies=proxies,
        hosts=hosts,
        secure=binding.has_tls or bool(proxies),
        drain_s=drain,
        dataset_namespaces=parse_namespaces(dataset_namespace or ()),
        webhook_secrets=tuple(webhook_secret or WEBHOOK_SECRETS),
        rate_per_s=rate,
        rate_burst=max(1, round(4 * rate)),
        sends_files=send_files,
    )
    workspaces = _workspaces(session, serves or [])
    http = build_server(session, workspaces, settings, is_local=binding.is_loopback)
    stop = stop_on_signal()
    _tell(session, binding.url(listening), http.local)
    serve(http.server, http.app, binding, listening, stop)
    if session.json:
        render.line({"state": "stopped"})


class HttpServer(NamedTuple):
    server: ApiServer
    app: ASGIApp
    local: LocalAccess | None


def build_server(
    session: Session,
    workspaces: list[Workspace],
    settings: ApiSettings,
    *,
    is_local: bool,
    development: Callable[[], DevelopmentState] | None = None,
) -> HttpServer:
    """The API of these workspaces, with all authenticators; a local server has local access too."""
    served = [ServedWorkspace(each, settings) for each in workspaces]
    keyed = [*served, *_tenant_workspaces(session, served, settings)]
    clock = workspaces[0].clock
    directories = Directories([KeySource(each) for each in keyed])
    authenticators: list[Authenticator] = [_key_authenticator(directories, clock)]
    auth = resolve_auth(Path.cwd())
    login = None
    if auth.has_issuer:
        verifier = TokenVerifier(auth, clock)
        oidc = OidcAuthenticator(verifier, auth, directories)
        authenticators.append(oidc)
        if auth.has_login:
            login = _login(auth, verifier, oidc, served[0], is_local=is_local)
            authenticators.append(login.sessions)
    local = None
    if is_local:
        names = [(each.tenant, each.name) for each in workspaces]
        local = LocalAccess(names, session.who())
        authenticators.append(local)
    access = AccessLog(clock, _to_stderr if development is None else None)
    server = ApiServer(served, authenticators, settings, clock, keyed, access)
    app = make_app(server, ROUTES, workspaces[0].ids, local, development, login=login)
    return HttpServer(server, app, local)


def _login(
    auth: AuthSettings,
    verifier: TokenVerifier,
    oidc: OidcAuthenticator,
    home: ServedWorkspace,
    *,
    is_local: bool,
) -> Login:
    if not auth.public_url and not is_local:
        raise Invalid(
            "[auth] has a client_id, but no public URL of this server",
            hint='write public_url = "https://…" under [auth]',
        )
    workspace = home.workspace
    sessions = Sessions(
        Sealer(session_key(workspace.store)),
        oidc,
        KeySource(home),
        workspace.clock.now,
    )
    secret = _referred(auth.client_secret) if auth.client_secret else ""
    return Login(OidcLogin(auth, verifier, workspace.clock, secret), sessions, auth, home)


def _referred(reference: str) -> str:
    try:
        ref = SecretRef.parse(reference)
        return SecretRegistry().resolve({"client_secret": ref})["client_secret"]
    except TaskFailed as error:
        raise Invalid(error.info.message, hint=error.info.hint) from None


def _workspaces(session: Session, names: list[str]) -> list[Workspace]:
    if not names:
        return [session.open()]
    return [session.open_other(*_split(each)) for each in names]


def _tenant_workspaces(
    session: Session, served: list[ServedWorkspace], settings: ApiSettings
) -> list[ServedWorkspace]:
    """The workspaces whose keys and roles are valid in all workspaces of a tenant."""
    tenants = sorted({each.tenant for each in served})
    names = {(each.tenant, each.name) for each in served}
    return [
        ServedWorkspace(session.open_other(tenant, TENANT_WORKSPACE), settings)
        for tenant in tenants
        if (tenant, TENANT_WORKSPACE) not in names
    ]


def _key_authenticator(directories: Directories, clock: Clock) -> KeyAuthenticator:
    def used(source: DirectorySource, row: ApiKeyRow) -> None:
        if isinstance(source, KeySource):
            source.served.security_log.used(row)

    return KeyAuthenticator(directories, clock.now, used)


def _split(text: str) -> tuple[str, str]:
    tenant, slash, name = text.partition("/")
    if not slash or not tenant or not name:
        raise Invalid(f"{text!r} is not a workspace", hint="write TENANT/NAME")
    return tenant, name


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _tell(session: Session, url: str, local: LocalAccess | None) -> None:
    link = None if local is None else f"{url}/local/{local.code}"
    token = None if local is None else local.token
    if session.json:
        render.line({"state": "started", "url": url, "token": token, "link": link})
        return
    render.say(f"serving {url}; press Ctrl-C to stop", "bold")
    if local is not None:
        render.say(f"token: {token}")
        render.say(f"link, works once: {link}")
        render.say(f"try: curl -H 'Authorization: Bearer {token}' {url}/api/v1/workspaces", "dim")
    sys.stdout.flush()
