"""SIGTERM and SIGINT, as an event that a long-running command waits for."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable


def stop_on_signal(
    stop: threading.Event | None = None, *, again: Callable[[], None] | None = None
) -> threading.Event:
    """Set the event on SIGTERM and SIGINT. To be called in the main thread.

    On a further signal, `again` is called, on a thread.

    A handler in Python runs in the main thread, as soon as that goes on. If another thread gets the
    signal while the main thread waits, the handler does not run. So the interpreter writes to a
    socket, which works in any thread, and a thread of ours reads it.
    """
    stop = stop or threading.Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)

    def listen() -> None:
        with sender, receiver:  # both are open as long as this waits
            while True:
                if receiver.recv(1)[0] not in (signal.SIGTERM, signal.SIGINT):
                    continue
                if stop.is_set() and again is not None:
                    again()
                stop.set()

    threading.Thread(target=listen, name="signals", daemon=True).start()
    return stop
