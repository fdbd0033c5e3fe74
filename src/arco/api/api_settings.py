"""How a server behaves: bounds on what one caller can make it do."""

from __future__ import annotations

import msgspec

MIB = 1 << 20
WEBHOOK_SECRETS = ("env:WEBHOOK_*",)


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    body_bytes: int = 1 * MIB
    """Of one request, except a deployment."""
    deploy_bytes: int = 64 * MIB
    body_timeout_s: float = 30.0
    """Timeout of the body of a request."""
    request_timeout_s: float = 30.0
    """Timeout of an answer: it is then a 504, which the client may retry."""
    threads: int = 16
    """Requests that read or write the store at once."""
    waiting: int = 200
    """Requests that may wait for one of them; more are answered with 503."""
    look_wait_s: float = 5.0
    """Maximum wait for the read of the newest generation. After it, waiting requests are answered
    with 503, and so are new ones until that read has ended."""
    stale_keys_s: float = 60.0
    """Maximum age of the keys and roles that are used while the store does not respond."""
    bodies_bytes: int = 256 * MIB
    """Of all requests at once; one that would be too much is answered with 503."""
    queries: int = 2
    """Of SQL, at once: each has a process with memory of its own."""
    head_age_s: float = 0.25
    """A read without a generation may be this far behind the store."""
    rate_per_s: float = 50.0
    rate_burst: int = 200
    """Of one caller, by identity; never by an address that a client can choose."""
    work_rate_per_s: float = 1_000.0
    work_rate_burst: int = 4_000
    """Of all workers that have one key; of one task."""
    uploads: int = 8
    """Objects that workers put through this server at once."""
    failed_logins_per_minute: int = 60
    """Of one address of the network."""
    rendered_bytes: int = 64 * MIB
    """Answers that are kept, rendered."""
    streams_per_caller: int = 10
    stream_age_s: float = 900.0
    ping_s: float = 15.0
    drain_s: float = 20.0
    """Timeout of active requests after SIGTERM."""
    hosts: tuple[str, ...] = ()
    """Names that a request may call this server by; empty: any."""
    trusted_proxies: tuple[str, ...] = ()
    webhook_secrets: tuple[str, ...] = WEBHOOK_SECRETS
    """Patterns of the references that sensors may name as their secret."""
    dataset_namespaces: dict[str, str] = {}
    """Of OpenLineage, to namespaces of assets."""
    secure: bool = False
    """Whether it is reached over TLS, of its own or of a proxy."""
    sends_files: bool = False
    """Files go through this server, also if the store has signed URLs of its own."""
