"""Notifications delivered to real servers on loopback, which fail, hang and come back."""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import socket
import threading
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pytest

from arco.clock import SystemClock
from arco.errors import Invalid, Unavailable
from arco.notifications.channels import NotificationSettings, parse_channels
from arco.notifications.courier import ChannelCourier
from arco.notifications.delivery import DeliveryOutcome
from arco.notifications.tables import (
    NotificationItem,
    NotificationRow,
    NotificationState,
    encode_items,
)
from arco.notifications.webhook import explained, post
from servo.contract.manifest import SecretRef
from tests.kit.receivers import MailReceiver, WebReceiver, mail_receiver, web_receiver

KEY = "correct horse"
RUN = "01K0000000000000000000000R"


@pytest.fixture
def web() -> Iterator[WebReceiver]:
    with web_receiver() as receiver:
        yield receiver


@pytest.fixture
def mail() -> Iterator[MailReceiver]:
    with mail_receiver() as receiver:
        yield receiver


def secret(ref: SecretRef) -> str:
    return {"KEY": KEY, "URL": "http://127.0.0.1:9/"}[ref.path]


def courier(**channels: dict[str, Any]) -> ChannelCourier:
    settings = parse_channels({"channels": channels})
    return ChannelCourier(settings, "acme/prod", SystemClock(), secret)


def webhook(receiver: WebReceiver, **more: Any) -> dict[str, Any]:
    return {"type": "webhook", "url": receiver.url, "allow_private": True, "timeout_s": 2, **more}


def smtp(receiver: MailReceiver, **more: Any) -> dict[str, Any]:
    return {
        "type": "smtp",
        "host": "127.0.0.1",
        "port": receiver.port,
        "security": "none",
        "sender": "arco@example.org",
        "to": ["ops@example.org"],
        "timeout_s": 2,
        **more,
    }


def row(receiver: str, *items: NotificationItem, **fields: Any) -> NotificationRow:
    items = items or (
        NotificationItem("asset_failed", "asset:1", "shop.orders", RUN, "user_code.ValueError", 30),
    )
    values: dict[str, Any] = {
        "rule_id": "shop/failures",
        "notification_id": "0123456789abcdef",
        "receiver": receiver,
        "sequence": 1,
        "state": NotificationState.SENDING,
        "items": encode_items(items).decode(),
        "subjects": len(items),
        "created_at": datetime(2026, 1, 5, 8),
        "due_at": datetime(2026, 1, 5, 8),
        "attempts": 1,
        "max_attempts": 10,
        "claimed_by": "me",
        "claimed_until": None,
        "detail": "",
        "finished_at": None,
    }
    return NotificationRow(**{**values, **fields})


# -- webhooks -----------------------------------------------------------------------------


def test_a_webhook_gets_a_signed_document(web: WebReceiver) -> None:
    outcome = courier(ops=webhook(web, secret="env:KEY")).deliver(row("ops"))
    assert outcome == DeliveryOutcome(True, "200 OK")
    (posted,) = web.posted
    headers = {name.lower(): value for name, value in posted.headers.items()}
    signed = headers["x-arco-timestamp"].encode() + b"." + posted.body
    digest = hmac.digest(KEY.encode(), signed, "sha256").hex()
    assert headers["x-arco-signature"] == f"sha256={digest}"
    assert hmac.new(b"wrong", signed, hashlib.sha256).hexdigest() != digest
    assert headers["x-arco-delivery"] == "0123456789abcdef"
    assert posted.path == "/hook?token=sesame"
    document = json.loads(posted.body)
    assert document["title"] == "[acme/prod] shop.orders failed (30 partitions)"
    assert document["items"] == [
        {
            "event": "asset_failed",
            "subject": "asset:1",
            "asset": "shop.orders",
            "run_id": RUN,
            "code": "user_code.ValueError",
            "count": 30,
        }
    ]
    assert f"servo runs show {RUN}" in document["text"]


def test_with_a_base_url_messages_have_links(web: WebReceiver) -> None:
    settings = parse_channels(
        {"base_url": "https://arco.example.org/", "channels": {"ops": webhook(web)}}
    )
    ChannelCourier(settings, "w", SystemClock(), secret).deliver(row("ops"))
    assert f"https://arco.example.org/runs/{RUN}" in json.loads(web.posted[0].body)["text"]


def test_slack_gets_text_in_which_nothing_is_a_mention_or_a_link(web: WebReceiver) -> None:
    hostile = NotificationItem("asset_failed", "asset:1", "shop.orders", RUN, "<!channel>\n& *x*")
    channel = {"type": "slack", "url": web.url, "allow_private": True}
    assert courier(chat=channel).deliver(row("chat", hostile)).delivered
    text = json.loads(web.posted[0].body)["text"]
    assert "<" not in text and "&lt;!channel&gt; &amp; *x*" in text


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (500, "127.0.0.1 responded with 500 Internal Server Error"),
        (404, "127.0.0.1 responded with 404 Not Found"),
        (302, "127.0.0.1 responded with 302 Found; redirects are not followed"),
    ],
)
def test_another_answer_than_success_is_no_delivery(
    web: WebReceiver, status: int, reason: str
) -> None:
    web.status = status
    sender = courier(ops=webhook(web))
    assert sender.deliver(row("ops")) == DeliveryOutcome(False, reason)
    web.status = 204
    assert sender.deliver(row("ops")).delivered


def test_a_receiver_that_hangs_is_left_in_time_and_hears_it_when_it_is_back(
    web: WebReceiver,
) -> None:
    web.open.clear()
    sender = courier(ops=webhook(web, timeout_s=0.3))
    assert sender.deliver(row("ops")) == DeliveryOutcome(False, "127.0.0.1: no answer in time")
    web.open.set()
    assert sender.deliver(row("ops")).delivered


def test_a_receiver_that_answers_too_slowly_is_left_in_time(web: WebReceiver) -> None:
    web.drips = True
    outcome = courier(ops=webhook(web, timeout_s=0.5)).deliver(row("ops"))
    assert outcome == DeliveryOutcome(False, "127.0.0.1: no answer in time")


def test_nothing_of_the_url_or_the_key_is_in_what_went_wrong(web: WebReceiver) -> None:
    web.status = 500
    sender = courier(ops=webhook(web, secret="env:KEY"))
    web.server.server_close()
    for _ in range(2):
        detail = sender.deliver(row("ops")).detail
        assert "sesame" not in detail and KEY not in detail and "hook" not in detail


def test_a_name_that_leads_inside_is_refused_when_something_is_sent(web: WebReceiver) -> None:
    with pytest.raises(Unavailable, match="a loopback address, which the channel does not allow"):
        post(f"http://localhost:{web.port}/", b"", {}, timeout_s=2)
    assert not web.arrived.is_set()
    referred = courier(ops={"type": "webhook", "url": "env:URL"})
    detail = referred.deliver(row("ops")).detail
    assert detail == "127.0.0.1 is a loopback address"


def test_a_secret_that_is_not_there_is_named_by_its_reference(web: WebReceiver) -> None:
    def missing(ref: SecretRef) -> str:
        raise Invalid(f"{ref.provider}:{ref.path} cannot be resolved")

    settings = parse_channels({"channels": {"ops": webhook(web, secret="env:NOBODY")}})
    sender = ChannelCourier(settings, "w", SystemClock(), missing)
    outcome = sender.deliver(row("ops"))
    assert outcome == DeliveryOutcome(False, "env:NOBODY cannot be resolved")


# -- e-mail -------------------------------------------------------------------------------


def test_a_mail_goes_to_the_channel_and_one_to_an_owner(mail: MailReceiver) -> None:
    sender = courier(mail=smtp(mail))
    assert sender.deliver(row("mail")) == DeliveryOutcome(True, "taken by 127.0.0.1")
    assert sender.deliver(row("owners:ana@example.org")).delivered
    assert mail.recipients == [["ops@example.org"], ["ana@example.org"]]
    first, second = mail.mails
    assert first["Subject"] == "[acme/prod] shop.orders failed (30 partitions)"
    assert first["X-Arco-Delivery"] == "0123456789abcdef"
    assert (second["To"], second["From"]) == ("ana@example.org", "arco@example.org")
    assert f"servo runs show {RUN}" in second.get_content().replace("=\n", "")


def test_no_text_becomes_a_header(mail: MailReceiver) -> None:
    hostile = "shop.orders\r\nBcc: eve@example.org\r\n\r\nhello"
    item = NotificationItem("asset_failed", "asset:1", hostile, RUN, "x\r\n.\r\nRSET\r\n")
    assert courier(mail=smtp(mail)).deliver(row("mail", item)).delivered
    (message,) = mail.mails
    assert message["Bcc"] is None
    assert "Bcc: eve" in message["Subject"] and "\n" not in message["Subject"]
    assert mail.recipients == [["ops@example.org"]]


@pytest.mark.parametrize("answer", ["451 later", "554 no"])
def test_a_mail_that_is_not_taken_is_no_delivery(mail: MailReceiver, answer: str) -> None:
    sender = courier(mail=smtp(mail))
    mail.answer = answer
    outcome = sender.deliver(row("mail"))
    assert outcome == DeliveryOutcome(False, f"127.0.0.1 responded with {answer[:3]}")
    mail.answer = "250 OK"
    assert sender.deliver(row("mail")).delivered


def test_a_mail_that_is_taken_for_some_is_delivered_and_names_what_was_refused(
    mail: MailReceiver,
) -> None:
    sender = courier(mail=smtp(mail, to=["ops@example.org", "gone@example.org"]))
    mail.unknown = {"gone@example.org"}
    outcome = sender.deliver(row("mail"))
    detail = "taken by 127.0.0.1, but 127.0.0.1 refused 1 recipients (550)"
    assert outcome == DeliveryOutcome(True, detail)
    assert mail.recipients == [["ops@example.org"]]
    mail.unknown |= {"ops@example.org"}
    outcome = sender.deliver(row("mail"))
    assert outcome == DeliveryOutcome(False, "127.0.0.1 refused 2 recipients (550)")


def test_a_mail_server_that_says_nothing_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = MailReceiver()
        silent.port = mute.getsockname()[1]
        outcome = courier(mail=smtp(silent, timeout_s=0.3)).deliver(row("mail"))
    assert outcome == DeliveryOutcome(False, "127.0.0.1: no answer in time")


def test_a_timeout_of_the_socket_is_no_answer_in_time() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as mute,
        pytest.raises(smtplib.SMTPServerDisconnected) as refused,
    ):
        smtplib.SMTP("127.0.0.1", mute.getsockname()[1], timeout=0.05)
    assert explained(refused.value) == "no answer in time"


def test_a_password_is_not_sent_to_a_server_without_tls(mail: MailReceiver) -> None:
    channel = smtp(mail, security="starttls", username="arco", password="env:KEY")
    outcome = courier(mail=channel).deliver(row("mail"))
    assert not outcome.delivered and KEY not in outcome.detail


# -- threads ------------------------------------------------------------------------------


def test_a_receiver_that_hangs_delays_no_other(web: WebReceiver) -> None:
    with web_receiver() as hanging:
        hanging.open.clear()
        sender = courier(slow=webhook(hanging, timeout_s=30), quick=webhook(web))
        outcomes: dict[str, DeliveryOutcome] = {}
        quick, slow = threading.Event(), threading.Event()

        def note(name: str, done: threading.Event, outcome: DeliveryOutcome) -> None:
            outcomes[name] = outcome
            done.set()

        sender.submit(row("slow"), lambda outcome: note("slow", slow, outcome))
        assert hanging.arrived.wait(30)
        sender.submit(row("quick"), lambda outcome: note("quick", quick, outcome))
        assert quick.wait(30)
        assert list(outcomes) == ["quick"]
        hanging.open.set()
        assert slow.wait(30) and outcomes["slow"].delivered
        sender.close()


def test_a_courier_serves_the_channels_that_it_has(mail: MailReceiver) -> None:
    assert not ChannelCourier(NotificationSettings(), "w", SystemClock(), secret).serves(
        "owners:a@b"
    )
    sender = courier(mail=smtp(mail))
    assert [sender.serves(r) for r in ("mail", "ops", "owners:a@b.org")] == [True, False, True]


def test_settings_have_a_text_without_secrets(mail: MailReceiver) -> None:
    settings = courier(mail=smtp(mail, security="tls", username="u", password="env:KEY")).settings
    assert KEY not in msgspec.json.encode(settings).decode()
    assert settings.secret_variables == {"KEY"}
