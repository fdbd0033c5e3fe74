"""What processes that run user code have in their environment."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from arco.clock import SystemClock
from arco.storage.memory import MemoryStore
from arco.tasks import private
from arco.transport.task_keys import task_keys

WORKER = {
    "PATH": "/bin",
    "PYTHONPATH": "/code",
    "DATABASE": "sales",
    "DB_PASSWORD": "hunter2",
    "ARCO_TASK_KEYS": "k1:00",
    "AWS_SECRET_ACCESS_KEY": "s3",
    "AWS_REGION": "eu-west-1",
    "AWS_ENDPOINT_URL_S3": "http://127.0.0.1",
    "GOOGLE_APPLICATION_CREDENTIALS": "/key.json",
    "AZURE_STORAGE_ACCOUNT_KEY": "az",
    "AZURE_STORAGE_ACCOUNT_NAME": "account",
}


def test_a_slot_host_starts_with_what_python_needs() -> None:
    assert private.of_host(WORKER) == {"PATH": "/bin", "PYTHONPATH": "/code"}


@pytest.mark.parametrize(
    ("store", "credential"),
    [
        ("s3://bucket/lake", "AWS_SECRET_ACCESS_KEY"),
        ("gs://bucket/lake", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://container/lake", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_a_slot_sees_neither_keys_nor_secrets_nor_credentials_of_its_store(
    store: str, credential: str
) -> None:
    environment, credentials = private.of_slot(WORKER, store, {"DB_PASSWORD"})
    assert credentials == {credential: WORKER[credential]}
    assert WORKER.keys() - environment.keys() == {"DB_PASSWORD", "ARCO_TASK_KEYS", credential}


def test_credentials_of_other_clouds_stay_for_code_that_uses_these() -> None:
    environment, credentials = private.of_slot(WORKER, "file:///lake", {"DB_PASSWORD"})
    assert not credentials
    assert WORKER.keys() - environment.keys() == {"DB_PASSWORD", "ARCO_TASK_KEYS"}


def test_what_starts_while_secrets_are_hidden_does_not_inherit_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("ARCO_TASK_KEYS", "A_SECRET_OF_THIS_TEST")
    for name in names:
        monkeypatch.setenv(name, "x")
    private.add_secrets({"A_SECRET_OF_THIS_TEST"})
    with private.hidden():
        assert not [name for name in names if name in os.environ]
        assert [private.variable(name) for name in names] == ["x", "x"]
    assert [os.environ[name] for name in names] == ["x", "x"]


def test_a_protected_process_keeps_its_environment_and_does_not_show_it() -> None:
    code = """
import ctypes, os, subprocess
from pathlib import Path
from arco.tasks import private

own, kernel, is_dumpable = Path("/proc/self/environ"), ctypes.CDLL(None), 3
before, path = os.environ.copy(), f"PATH={os.environ['PATH']}".encode()
assert b"k1:00ff" in own.read_bytes() and kernel.prctl(is_dumpable, 0, 0, 0, 0) == 1
for _ in range(2):
    private.protect()
    assert kernel.prctl(is_dumpable, 0, 0, 0, 0) == 0
    if os.getuid() == 0:  # others cannot read their own file any more
        shown = own.read_bytes()
        assert b"k1:00ff" not in shown and b"caf" not in shown and path in shown.split(b"\\0")
kernel.getenv.restype = ctypes.c_char_p
assert os.environ == before and kernel.getenv(b"ARCO_TASK_KEYS") == b"k1:00ff"
assert b"ODD=caf\\xe9=\\n" in subprocess.check_output(["env"])
print("ok")
"""
    env = {
        b"PATH": os.environb[b"PATH"],
        b"EMPTY": b"",
        b"ARCO_TASK_KEYS": b"k1:00ff",
        b"ODD": b"caf\xe9=",
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_keys_are_read_from_the_environment_also_while_they_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARCO_TASK_KEYS", "k1:" + "00" * 16)
    with private.hidden():
        assert [key.id for key in task_keys(MemoryStore(SystemClock()))] == ["k1"]
