"""Settings that all tests share."""

from __future__ import annotations

import os
import signal

from hypothesis import HealthCheck, settings

# A commit costs milliseconds, and a machine under test is busy: time limits for
# single examples would only find out how busy.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("default", deadline=None, suppress_health_check=_SLOW)
settings.register_profile("ci", parent=settings.get_profile("default"), print_blob=True)
settings.register_profile("deep", parent=settings.get_profile("ci"), max_examples=2_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)

# A shell that starts the tests in the background has them ignore Ctrl-C, and with them all
# the processes that tests start and then interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
