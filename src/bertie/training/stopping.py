"""A run that is asked to stop: Ctrl-C and SIGTERM become a question the loop asks between two steps."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Asked = Callable[[], int | None]  # the signal that asked for the end, if one did


@contextmanager
def asked_to_stop() -> Iterator[Asked]:
    """Whether Ctrl-C or SIGTERM came in this block; a second one is not waited with."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # where signals never arrive
        yield lambda: None
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
