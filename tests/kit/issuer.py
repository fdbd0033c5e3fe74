"""An issuer of tokens on loopback: keys that rotate, a discovery document, a key set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.kit.http_servers import QuietHandler, on_free_port, serving_http

RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE_KEY = ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, **more: Any) -> dict[str, Any]:
    """The public half of a key, as a key set has it."""
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        entry: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(public))
    else:
        entry = json.loads(ECAlgorithm.to_jwk(public))
    entry.pop("key_ops", None)
    return {**entry, **more}


class Issuer:
    """What it answers can be changed; what it was asked is counted."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.keys: list[dict[str, Any]] = [
            public_jwk(RSA_KEY, kid="rsa-1", use="sig"),
            public_jwk(CURVE_KEY, kid="ec-1", use="sig", alg="ES256"),
        ]
        self.named = url
        self.jwks_uri = f"{url}/jwks"
        self.fails = False
        self.fetches = 0

    def answer(self, path: str) -> tuple[int, Mapping[str, Any]]:
        if self.fails:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            return 200, {"issuer": self.named, "jwks_uri": self.jwks_uri}
        if path == "/jwks":
            self.fetches += 1
            return 200, {"keys": self.keys}
        if path == "/moved":
            return 302, {}
        return 404, {}

    def token(
        self,
        claims: Mapping[str, Any],
        *,
        key: Any = RSA_KEY,
        algorithm: str = "RS256",
        **headers: Any,
    ) -> str:
        named = {"kid": "rsa-1", **headers}
        return jwt.encode(
            dict(claims),
            key,
            algorithm=algorithm,
            headers={name: value for name, value in named.items() if value is not None},
        )


@contextmanager
def serving_issuer() -> Iterator[Issuer]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            status, document = issuer.answer(self.path)
            body = json.dumps(document).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{issuer.url}/jwks")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = on_free_port(Handler)
    issuer = Issuer(server.address)
    with serving_http(server):
        yield issuer
