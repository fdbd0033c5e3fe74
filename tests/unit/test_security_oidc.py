"""Tokens: those that hold, and a zoo of those that do not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from arco.config import resolve_auth
from arco.errors import Invalid, Unauthenticated, Unavailable
from arco.security.authentication import Directories, KeyAuthenticator, OidcAuthenticator
from arco.security.caller import Grant, Scope
from arco.security.directory import Directory
from arco.security.oidc import FRESH_S, REFETCH_S, STALE_S, TokenIdentity, TokenVerifier
from arco.security.permissions import Permission, Role
from arco.security.settings import AuthSettings, GroupRole, parse_auth
from tests.kit.clocks import SimClock
from tests.kit.issuer import CURVE_KEY, OTHER_RSA_KEY, RSA_KEY, Issuer, public_jwk, serving_issuer
from tests.kit.workspace import NAME, TENANT, make_workspace


@pytest.fixture(scope="module")
def server() -> Iterator[Issuer]:
    with serving_issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(server: Issuer) -> Issuer:
    server.__init__(server.url)  # type: ignore[misc]
    return server


@pytest.fixture
def clock() -> SimClock:
    return SimClock()


def settings_of(issuer: Issuer, **more: Any) -> AuthSettings:
    table = {"issuer": issuer.url, "audience": "arco", "algorithms": ["RS256", "PS256", "ES256"]}
    return parse_auth({**table, **more})


def seconds(time: datetime) -> int:
    return int(time.replace(tzinfo=UTC).timestamp())


def claims_of(issuer: Issuer, clock: SimClock, **more: Any) -> dict[str, Any]:
    now = seconds(clock.now())
    claims = {
        "iss": issuer.url,
        "aud": "arco",
        "sub": "sub-1",
        "iat": now,
        "exp": now + 300,
        "email": "Ann@Example.com",
        "email_verified": True,
        "groups": ["data"],
        **more,
    }
    return {name: value for name, value in claims.items() if value is not None}


def verifier(issuer: Issuer, clock: SimClock, **more: Any) -> TokenVerifier:
    return TokenVerifier(settings_of(issuer, **more), clock)


# -- what holds ---------------------------------------------------------------------------


def test_a_token_says_who_its_holder_is(issuer: Issuer, clock: SimClock) -> None:
    identity = verifier(issuer, clock).verify(issuer.token(claims_of(issuer, clock, name="Ann")))
    assert identity == TokenIdentity(
        issuer=issuer.url,
        subject="sub-1",
        email="ann@example.com",
        name="Ann",
        groups=("data",),
        expires_at=(clock.now() + timedelta(seconds=300)).replace(microsecond=0),
    )
    assert identity.subjects == ("user:ann@example.com", "subject:sub-1", "group:data")


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"),
    [(RSA_KEY, "RS256", "rsa-1"), (RSA_KEY, "PS256", "rsa-1"), (CURVE_KEY, "ES256", "ec-1")],
)
def test_allowed_algorithms_hold(
    issuer: Issuer, clock: SimClock, key: Any, algorithm: str, kid: str
) -> None:
    token = issuer.token(claims_of(issuer, clock), key=key, algorithm=algorithm, kid=kid)
    assert verifier(issuer, clock).verify(token).subject == "sub-1"


def test_a_list_of_audiences_with_ours_holds(issuer: Issuer, clock: SimClock) -> None:
    token = issuer.token(claims_of(issuer, clock, aud=["other", "arco"]))
    assert verifier(issuer, clock).verify(token).subject == "sub-1"


def test_clocks_may_differ_within_the_leeway(issuer: Issuer, clock: SimClock) -> None:
    now = seconds(clock.now())
    for claims in ({"exp": now - 30}, {"nbf": now + 30}, {"iat": now + 30}):
        token = issuer.token(claims_of(issuer, clock, **claims))
        assert verifier(issuer, clock).verify(token).subject == "sub-1"


# -- the zoo ------------------------------------------------------------------------------


def raw_token(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def hs_signed(claims: dict[str, Any], secret: bytes) -> str:
    header = {"alg": "HS256", "typ": "JWT", "kid": "rsa-1"}
    signed = raw_token(header, claims).rsplit(".", 1)[0]
    digest = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


PUBLIC_PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
BAD_CLAIMS: dict[str, dict[str, Any]] = {
    "wrong audience": {"aud": "other"},
    "no audience": {"aud": None},
    "audience list without ours": {"aud": ["a", "b"]},
    "authorized party alone": {"aud": None, "azp": "arco"},
    "client id alone": {"aud": "other", "client_id": "arco", "azp": "arco"},
    "wrong issuer": {"iss": "https://evil.example"},
    "issuer with a slash": {"iss": "SLASH"},
    "no issuer": {"iss": None},
    "no subject": {"sub": None},
    "empty subject": {"sub": ""},
    "subject with a line break": {"sub": "a\nb"},
    "expired": {"exp": 1_000},
    "no expiry": {"exp": None},
    "expiry as text": {"exp": "9999999999"},
    "expiry without end": {"exp": 1 << 60},
    "not yet": {"nbf": 1 << 33},
    "from the future": {"iat": 1 << 33},
    "ID token with a nonce": {"nonce": "n"},
    "ID token with at_hash": {"at_hash": "x"},
    "ID token of Keycloak": {"typ": "ID"},
}


@pytest.mark.parametrize("name", BAD_CLAIMS)
def test_a_token_with_such_claims_does_not_hold(issuer: Issuer, clock: SimClock, name: str) -> None:
    bad = {
        claim: f"{issuer.url}/" if value == "SLASH" else value
        for claim, value in BAD_CLAIMS[name].items()
    }
    token = issuer.token(claims_of(issuer, clock, **bad))
    with pytest.raises(Unauthenticated) as refused:
        verifier(issuer, clock).verify(token)
    assert token not in str(refused.value) and "sub-1" not in str(refused.value)


def forged(issuer: Issuer, clock: SimClock) -> dict[str, str]:
    claims = claims_of(issuer, clock)
    good = issuer.token(claims)
    own = public_jwk(OTHER_RSA_KEY, kid="rsa-1")
    stolen = issuer.token(claims_of(issuer, clock, sub="sub-2")).split(".")[1]
    return {
        "empty": "",
        "words": "not a token",
        "dots": "..",
        "alg none": raw_token({"alg": "none", "kid": "rsa-1"}, claims),
        "alg None": raw_token({"alg": "None", "kid": "rsa-1"}, claims),
        "alg missing": raw_token({"kid": "rsa-1"}, claims),
        "alg is a list": raw_token({"alg": ["RS256"], "kid": "rsa-1"}, claims),
        "HS256 with the public key": hs_signed(claims, PUBLIC_PEM),
        "RS512": issuer.token(claims, algorithm="RS512"),
        "kid missing": issuer.token(claims, kid=None),
        "kid unknown": issuer.token(claims, kid="other"),
        "kid is a path": issuer.token(claims, kid="../../etc/passwd"),
        "kid of another kind of key": issuer.token(claims, kid="ec-1"),
        "signed by somebody else": issuer.token(claims, key=OTHER_RSA_KEY),
        "brings its key along": issuer.token(claims, key=OTHER_RSA_KEY, jwk=own),
        "names an address of its key": issuer.token(
            claims, key=OTHER_RSA_KEY, jku="https://evil.example/jwks"
        ),
        "signature of another token": ".".join([good.split(".")[0], stolen, good.split(".")[2]]),
        "signature cut": good[:-10],
        "signature missing": good.rsplit(".", 1)[0] + ".",
        "critical header": issuer.token(claims, crit=["exp"]),
        "very long": issuer.token({**claims, "x": "y" * 20_000}),
    }


ZOO = [
    "empty",
    "words",
    "dots",
    "alg-none",
    "alg-None",
    "alg-missing",
    "alg-is-a-list",
    "HS256-with-the-public-key",
    "RS512",
    "kid-missing",
    "kid-unknown",
    "kid-is-a-path",
    "kid-of-another-kind-of-key",
    "signed-by-somebody-else",
    "brings-its-key-along",
    "names-an-address-of-its-key",
    "signature-of-another-token",
    "signature-cut",
    "signature-missing",
    "critical-header",
    "very-long",
]


@pytest.mark.parametrize("name", ZOO)
def test_a_forged_token_does_not_hold(issuer: Issuer, clock: SimClock, name: str) -> None:
    token = forged(issuer, clock)[name.replace("-", " ")]
    with pytest.raises(Unauthenticated):
        verifier(issuer, clock).verify(token)


def test_an_algorithm_that_is_not_configured_does_not_hold(issuer: Issuer, clock: SimClock) -> None:
    token = issuer.token(claims_of(issuer, clock), algorithm="PS256")
    with pytest.raises(Unauthenticated, match="algorithm"):
        verifier(issuer, clock, algorithms=["RS256"]).verify(token)


@pytest.mark.parametrize(
    "entry",
    [
        {"kty": "oct", "k": base64.urlsafe_b64encode(PUBLIC_PEM).decode(), "kid": "rsa-1"},
        {"use": "enc"},
        {"alg": "PS256"},
        {"kid": 7},
    ],
)
def test_keys_for_something_else_verify_nothing(
    issuer: Issuer, clock: SimClock, entry: dict[str, Any]
) -> None:
    issuer.keys = [
        entry if "kty" in entry else {**public_jwk(RSA_KEY, kid="rsa-1"), **entry},
        {},
        {"kid": "rsa-1", "kty": "RSA", "n": "!", "e": "AQAB"},
    ]
    with pytest.raises(Unauthenticated):
        verifier(issuer, clock).verify(issuer.token(claims_of(issuer, clock)))


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_short_keys_verify_nothing(issuer: Issuer, clock: SimClock) -> None:
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    issuer.keys = [public_jwk(short, kid="rsa-1")]
    with pytest.raises(Unauthenticated):
        verifier(issuer, clock).verify(issuer.token(claims_of(issuer, clock), key=short))


def test_only_access_tokens_hold_where_that_is_required(issuer: Issuer, clock: SimClock) -> None:
    strict = verifier(issuer, clock, require_access_token=True)
    claims = claims_of(issuer, clock)
    with pytest.raises(Unauthenticated, match="access token"):
        strict.verify(issuer.token(claims))
    assert strict.verify(issuer.token(claims, typ="at+jwt")).subject == "sub-1"


def test_an_address_that_is_not_verified_does_not_count(issuer: Issuer, clock: SimClock) -> None:
    token = issuer.token(claims_of(issuer, clock, email_verified=None))
    assert verifier(issuer, clock).verify(token).email == ""
    assert verifier(issuer, clock, trust_email=True).verify(token).email == "ann@example.com"
    text = issuer.token(claims_of(issuer, clock, email_verified="true"))
    assert verifier(issuer, clock).verify(text).email == ""


# -- keys that rotate ---------------------------------------------------------------------


def test_a_new_key_is_fetched_once_it_is_used(issuer: Issuer, clock: SimClock) -> None:
    tokens = verifier(issuer, clock)
    tokens.verify(issuer.token(claims_of(issuer, clock)))
    issuer.keys.append(public_jwk(OTHER_RSA_KEY, kid="rsa-2"))
    clock.advance(timedelta(seconds=REFETCH_S))
    renewed = issuer.token(claims_of(issuer, clock), key=OTHER_RSA_KEY, kid="rsa-2")
    assert tokens.verify(renewed).subject == "sub-1"
    assert issuer.fetches == 2


def test_made_up_keys_do_not_become_requests(issuer: Issuer, clock: SimClock) -> None:
    tokens = verifier(issuer, clock)
    for i in range(50):
        with pytest.raises(Unauthenticated):
            tokens.verify(issuer.token(claims_of(issuer, clock), kid=f"k{i}"))
    assert issuer.fetches == 1


def test_a_key_that_was_withdrawn_stops_counting(issuer: Issuer, clock: SimClock) -> None:
    tokens = verifier(issuer, clock)
    tokens.verify(issuer.token(claims_of(issuer, clock)))
    issuer.keys = issuer.keys[1:]
    clock.advance(timedelta(seconds=FRESH_S + 1))
    with pytest.raises(Unauthenticated):
        tokens.verify(issuer.token(claims_of(issuer, clock)))


def test_keys_hold_for_a_day_while_the_issuer_does_not_answer(
    issuer: Issuer, clock: SimClock
) -> None:
    tokens = verifier(issuer, clock)
    tokens.verify(issuer.token(claims_of(issuer, clock)))
    issuer.fails = True
    clock.advance(timedelta(seconds=STALE_S - 1))
    assert tokens.verify(issuer.token(claims_of(issuer, clock))).subject == "sub-1"
    clock.advance(timedelta(seconds=2))
    with pytest.raises(Unavailable):
        tokens.verify(issuer.token(claims_of(issuer, clock)))


def test_without_keys_nobody_is_let_in(issuer: Issuer, clock: SimClock) -> None:
    issuer.fails = True
    with pytest.raises(Unavailable):
        verifier(issuer, clock).verify(issuer.token(claims_of(issuer, clock)))


def test_a_discovery_document_of_somebody_else_is_not_believed(
    issuer: Issuer, clock: SimClock
) -> None:
    issuer.named = "https://evil.example"
    with pytest.raises(Unavailable):
        verifier(issuer, clock).verify(issuer.token(claims_of(issuer, clock)))


def test_a_discovery_document_does_not_lead_elsewhere(issuer: Issuer, clock: SimClock) -> None:
    issuer.jwks_uri = "file:///etc/passwd"
    with pytest.raises(Unavailable):
        verifier(issuer, clock).verify(issuer.token(claims_of(issuer, clock)))


def test_redirects_are_not_followed(issuer: Issuer, clock: SimClock) -> None:
    moved = verifier(issuer, clock, jwks_url=f"{issuer.url}/moved")
    with pytest.raises(Unavailable):
        moved.verify(issuer.token(claims_of(issuer, clock)))


# -- callers ------------------------------------------------------------------------------


class Source:
    tenant, name = TENANT, NAME

    def __init__(self, clock: SimClock) -> None:
        self.w = make_workspace(clock=clock)

    def directory(self) -> Directory:
        return Directory.read(self.w.read.snapshot())


def test_grants_come_from_groups_of_the_settings_and_from_the_log(
    issuer: Issuer, clock: SimClock
) -> None:
    source = Source(clock)
    source.w.commands.security.grant("user:ann@example.com", Role.EDITOR, namespace="sales")
    source.w.commands.security.grant("group:data", Role.OPERATOR)
    source.w.commands.security.grant("subject:other", Role.OWNER)
    groups = [{"group": "data", "role": "viewer", "tenant": "beta"}]
    settings = settings_of(issuer, groups=groups)
    callers = OidcAuthenticator(TokenVerifier(settings, clock), settings, Directories([source]))
    caller = callers.caller(issuer.token(claims_of(issuer, clock)))
    assert caller is not None
    assert caller.grants == (
        Grant(Role.VIEWER, Scope("beta")),
        Grant(Role.EDITOR, Scope(TENANT, NAME, "sales")),
        Grant(Role.OPERATOR, Scope(TENANT, NAME)),
    )
    assert (caller.kind, caller.id, caller.email) == ("user", "sub-1", "ann@example.com")
    assert callers.caller("arco_x_y") is None


def test_a_token_of_one_tenant_counts_in_no_other(issuer: Issuer, clock: SimClock) -> None:
    source = Source(clock)
    source.w.commands.security.grant("group:data", Role.OWNER)
    settings = settings_of(issuer, tenant_claim="org")
    callers = OidcAuthenticator(TokenVerifier(settings, clock), settings, Directories([source]))
    for tenant, expected in ((TENANT, 1), ("beta", 0), (None, 0), (["acme"], 0)):
        caller = callers.caller(issuer.token(claims_of(issuer, clock, org=tenant)))
        assert caller is not None and len(caller.grants) == expected


def test_a_key_stops_counting_with_the_generation_that_revokes_it(clock: SimClock) -> None:
    source = Source(clock)
    uses: list[str] = []
    callers = KeyAuthenticator(
        Directories([source]), clock.now, lambda source, row: uses.append(row.key_id)
    )
    new = source.w.commands.security.create_key("ci", Role.OPERATOR, scopes=["runs.trigger"])
    caller = callers.caller(str(new.text))
    assert caller is not None
    assert caller.at(TENANT, NAME).permissions() == {Permission.RUNS_TRIGGER}
    assert uses == [new.row.key_id]
    source.w.commands.security.revoke_key(new.row.key_id)
    with pytest.raises(Unauthenticated, match="revoked"):
        callers.caller(str(new.text))
    with pytest.raises(Unauthenticated, match="not valid"):
        callers.caller(f"arco_01ARZ3NDEKTSV4RRFFQ69G5FAV_{'0' * 64}")
    assert callers.caller("a.b.c") is None


# -- settings -----------------------------------------------------------------------------


def test_settings_are_read_from_the_nearest_file(tmp_path: Path) -> None:
    assert resolve_auth(tmp_path) == AuthSettings()
    (tmp_path / "arco.toml").write_text(
        '[auth]\nissuer = "https://login.example.com"\naudience = "arco"\n'
        '[[auth.groups]]\ngroup = "ops"\nrole = "operator"\ntenant = "acme"\nworkspace = "prod"\n'
    )
    assert resolve_auth(tmp_path) == AuthSettings(
        issuer="https://login.example.com",
        audience=("arco",),
        groups=(GroupRole("ops", Role.OPERATOR, "acme", "prod"),),
    )


@pytest.mark.parametrize(
    "table",
    [
        {"issuer": "https://x.example"},
        {"issuer": "http://x.example", "audience": "a"},
        {"issuer": "https://u:p@x.example", "audience": "a"},
        {"issuer": "nonsense", "audience": "a"},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": []},
        {"leeway_s": 10_000},
        {"isuer": "https://x.example"},
        {"groups": [{"group": "a", "role": "king", "tenant": "t"}]},
        {"groups": [{"group": "a", "role": "viewer", "tenant": "t", "namespace": "n"}]},
        {"groups": [{"group": "a", "role": "viewer"}]},
        {"jwks_url": "file:///etc/passwd"},
    ],
)
def test_settings_that_would_let_somebody_in_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        parse_auth(table)
