"""What `notify` and `[notifications]` of `arco.toml` accept, and what is said of the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from arco.config import resolve_channels
from arco.errors import Invalid
from arco.notifications.addresses import private_address
from arco.notifications.channels import NotificationSettings, channel_problems, parse_channels
from servo.discover import build_manifest, discover
from servo.validate import validate

HOOK = {"type": "webhook", "url": "https://example.org/hook"}
MAIL = {"type": "smtp", "host": "mail.example.org", "sender": "arco@example.org"}


def settings(**channels: dict[str, Any]) -> NotificationSettings:
    return parse_channels({"channels": channels})


# -- channels -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channel", "reason"),
    [
        ({"url": "https://example.org"}, "needs a type"),
        ({**HOOK, "secrets": "env:X"}, "unknown key 'secrets'"),
        ({**HOOK, "secret": "plain text"}, "is not a reference"),
        ({**HOOK, "url": "ftp://example.org"}, "not a URL of http or https"),
        ({**HOOK, "url": "example.org"}, "not a URL of http or https"),
        ({**HOOK, "url": "https://example.org/a b"}, "blanks or other characters"),
        ({**HOOK, "url": "https://example.org/\r\nHost: x"}, "blanks or other characters"),
        ({**HOOK, "url": "https://u:p@example.org/"}, "a user, a fragment or port 0"),
        ({**HOOK, "url": "https://example.org:99999/"}, "it is not a URL"),
        ({**HOOK, "url": "http://127.0.0.1/"}, "127.0.0.1 is a loopback address"),
        ({**HOOK, "url": "http://2130706433/"}, "is a loopback address"),
        ({**HOOK, "url": "http://0x7f.1/"}, "is a loopback address"),
        ({**HOOK, "url": "http://[::1]:80/"}, "is a loopback address"),
        ({**HOOK, "url": "http://[::ffff:10.0.0.1]/"}, "is a private address"),
        ({**HOOK, "url": "http://[::ffff:0:7f00:1]/"}, "is a private address"),
        ({**HOOK, "url": "http://[::127.0.0.1]/"}, "is a private address"),
        ({**HOOK, "url": "http://[64:ff9b::7f00:1]/"}, "is a loopback address"),
        ({**HOOK, "url": "http://[64:ff9b:1::7f00:1]/"}, "is a private address"),
        ({**HOOK, "url": "http://[fec0::1]/"}, "is a private address"),
        ({**HOOK, "url": "http://[fd00::1]/"}, "is a private address"),
        ({**HOOK, "url": "http://10.1.2.3/"}, "is a private address"),
        ({**HOOK, "url": "http://192.168.0.1/"}, "is a private address"),
        ({**HOOK, "url": "http://100.64.0.1/"}, "is a private address"),
        ({**HOOK, "url": "http://169.254.169.254/latest"}, "is a link-local address"),
        ({**HOOK, "url": "http://localhost:8080/"}, "a name of this machine or network"),
        ({**HOOK, "url": "http://metadata.google.internal/"}, "a name of this machine or network"),
        ({**HOOK, "timeout_s": 0}, "timeout_s is 0"),
        ({**HOOK, "timeout_s": 600}, "timeout_s is 600"),
        ({**MAIL, "sender": "arco"}, "'arco' is not an e-mail address"),
        ({**MAIL, "to": ["a@b.org\nBcc: c@d.org"]}, "is not an e-mail address"),
        ({"type": "smtp", "host": "h"}, "channel 'ops': Object missing required field `sender`"),
        ({**MAIL, "port": 0}, "port is 0"),
        ({**MAIL, "host": ""}, "host is ''"),
        ({**MAIL, "username": "arco"}, "username and password go together"),
        ({**MAIL, "username": "u", "password": "secret"}, "password is not a reference"),
        (
            {**MAIL, "username": "u", "password": "env:P", "security": "none"},
            "without encryption",
        ),
        ({**MAIL, "security": "maybe"}, "Invalid enum value 'maybe'"),
    ],
)
def test_a_channel_that_cannot_work_is_refused(channel: dict[str, Any], reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        settings(ops=channel)
    assert reason in refused.value.message
    assert "https://" not in refused.value.message


def test_a_private_address_is_allowed_where_the_channel_says_so() -> None:
    for url in ("http://10.0.0.1/", "http://localhost/", "http://[::1]/"):
        channel = settings(ops={**HOOK, "url": url, "allow_private": True}).channel("ops")
        assert getattr(channel, "url", "") == url


@pytest.mark.parametrize("host", ["example.org", "8.8.8.8", "2606:4700::1111", "1dot1.example"])
def test_a_public_host_is_not_private(host: str) -> None:
    assert private_address(host) == ""


def test_names_of_channels_are_names_and_not_owners() -> None:
    for name in ("owners", "two words", "Ops"):
        with pytest.raises(Invalid):
            parse_channels({"channels": {name: HOOK}})


def test_the_channel_of_owners_sends_mail() -> None:
    with pytest.raises(Invalid, match="not a channel that sends e-mail"):
        parse_channels({"owners": "ops", "channels": {"ops": HOOK}})
    with pytest.raises(Invalid, match="there is no channel 'mial'"):
        parse_channels({"owners": "mial", "channels": {"mail": MAIL}})
    assert settings(ops=HOOK, mail=MAIL).owners_channel == "mail"
    assert settings(one=MAIL, two=MAIL).owners_channel == ""


def test_channels_are_read_from_the_nearest_file_that_has_some(tmp_path: Path) -> None:
    (tmp_path / "arco.toml").write_text(
        '[notifications.channels.ops]\ntype = "slack"\nurl = "env:OPS_URL"\n'
    )
    below = tmp_path / "below"
    below.mkdir()
    (below / "arco.toml").write_text('[project]\nname = "shop"\n')
    found = resolve_channels(below)
    assert list(found.channels) == ["ops"]
    assert found.secret_variables == {"OPS_URL"}
    assert resolve_channels(tmp_path.parent).channels == {}


# -- rules --------------------------------------------------------------------------------


def problems(folder: Path, *rules: str, owners: str = "['ana@example.org']") -> list[str]:
    text = (
        "from servo import asset, notify\n"
        f"@asset(namespace='shop', owners={owners}, tags={{'tier': 'gold'}})\n"
        "def orders(): ...\n"
    )
    (folder / "flow.py").write_text(text + "".join(f"notify({rule})\n" for rule in rules))
    return [f"{each.message} | {each.hint}" for each in validate(discover(folder))]


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("on='asset_fail', to='ops'", "an item of on is 'asset_fail'"),
        ("on=[], to='ops'", "on is empty"),
        ("on='stale', to=[]", "to is empty"),
        ("on='stale', to=3", "to is 3, not a list or tuple"),
        ("on='recovered', to='ops'", "has no failure in on="),
        ("on='stale', to='ops', select='shop.ordres'", "which matches no asset of the project"),
        ("on='stale', to='ops', select='tag:tier=silver'", "which matches no asset of the project"),
        ("on='stale', to='ops', select='orders+'", "no groups, no +"),
        ("on='run_failed', to='ops', select='orders'", "run_failed is not about assets"),
        ("on='stale', to='ops', interval='soon'", "'soon' is not a valid interval"),
        ("on='stale', to='ops', interval='2d'", "an interval of more than a day"),
        ("on='cost', to='ops'", 'write on="cost" with max_run_cost=20'),
        ("on='stale', to='ops', max_day_cost=5", 'an amount needs on="cost"'),
        ("on='cost', to='ops', max_day_cost=0", "max_day_cost is 0"),
        ("on='cost', to='ops', max_day_cost=float('nan')", "max_day_cost is nan"),
        ("on='cost', to='ops', max_run_cost=-1.5", "a number above 0"),
        ("on='cost', to='ops', max_run_cost='much'", "max_run_cost is 'much'"),
        ("on='cost', to='ops', max_run_cost=True", "max_run_cost is True"),
        ("on='cost', to='ops', max_run_cost=1, select='orders'", "is not about assets"),
        ("'Bad Name', on='stale', to='ops'", "is not a valid name of a notification"),
    ],
)
def test_a_rule_that_makes_no_sense_is_a_problem_of_its_line(
    tmp_path: Path, rule: str, problem: str
) -> None:
    (only,) = problems(tmp_path, rule)
    assert problem in only


def test_two_rules_of_one_name_are_a_problem(tmp_path: Path) -> None:
    (only,) = problems(tmp_path, "on='stale', to='ops'", "on='stale', to='ops', select='orders'")
    assert "two notifications are called 'ops_stale'" in only


def test_owners_need_an_address_and_a_good_one(tmp_path: Path) -> None:
    rule = "on='stale', to='owners'"
    assert problems(tmp_path, rule) == []
    (none,) = problems(tmp_path, rule, owners="['ana']")
    assert "no selected asset has an e-mail address" in none
    (bad,) = problems(tmp_path, rule, owners=r"['ana@example.org\nBcc: eve@example.org']")
    assert "is not an e-mail address" in bad


def test_rules_name_channels_that_there_are(tmp_path: Path) -> None:
    problems(tmp_path, "on='stale', to=['opps', 'mail', 'owners']")
    manifest = build_manifest(discover(tmp_path))

    def said(known: NotificationSettings) -> list[str]:
        return [each.message for each in channel_problems(manifest.notifications, known)]

    assert said(settings(ops=HOOK, mail={**MAIL, "to": ["a@b.org"]})) == [
        "'opps_stale' names the unknown channel 'opps'"
    ]
    assert said(settings(opps=HOOK, mail=MAIL)) == [
        "'opps_stale' names the channel 'mail', which has no recipients"
    ]
    assert said(settings(opps=HOOK))[1:] == [
        "'opps_stale' notifies owners, but no channel sends e-mail"
    ]


def test_the_guide_has_a_project_and_channels_that_fit_together(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "notifications.md").read_text("utf-8")
    code, toml = (
        re.findall(rf"```{kind}\n(.*?)```", guide, re.S)[0] for kind in ("python", "toml")
    )
    (tmp_path / "flow.py").write_text(code)
    (tmp_path / "arco.toml").write_text(toml)
    manifest = build_manifest(discover(tmp_path))
    assert len(manifest.notifications) == 3
    assert list(channel_problems(manifest.notifications, resolve_channels(tmp_path))) == []
