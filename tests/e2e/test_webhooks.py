"""The example of docs/guides/sensors.md: a shell that signs an event for a sensor."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

from tests.e2e.conftest import Servo

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "sensors.md"
PROJECT = """
from servo import asset, webhook_sensor

@asset(namespace="raw")
def events() -> None: ...

"""


def test_the_example_of_the_guide_pushes_a_message(servo: Servo) -> None:
    text = GUIDE.read_text()
    (declaration,) = re.findall(r"```python\n(till = .*?)```", text, re.DOTALL)
    (example,) = re.findall(r"```bash\n(id=.*?)```", text, re.DOTALL)
    project = servo.directory / "till"
    project.mkdir()
    (project / "assets.py").write_text(PROJECT + declaration)
    servo.json("deploy", "--project", str(project))
    environment = {"WEBHOOK_TILL": "a secret of this test"}
    servo.env |= environment
    process = servo.start("serve", "--port", "0", "--json")
    try:
        url = json.loads(process.stdout.readline())["url"]
        answers = [
            subprocess.run(
                ["bash", "-euo", "pipefail", "-c", example],
                env={**os.environ, **environment, "URL": url},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for _ in range(2)
        ]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert [json.loads(each)["is_repeated"] for each in answers] == [False, True]
    (request,) = servo.json("requests", "list")["requests"]
    assert request["request_key"] == "sensor:main/till:order-17"
