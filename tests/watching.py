"""What the tests of every part share about watches, and about what a program calls."""

import sys
import threading
from contextlib import ExitStack, contextmanager

until_death = ExitStack().enter_context
"""Enter a context in a process of a test, which never leaves it."""


async def next_of(watch):
    """Open a watch, and return the first that it gives."""
    async with watch as opened:
        return await anext(opened)


@contextmanager
def calls_of(function, act=lambda frame: None):
    """Watch the calls of a function in this thread, and in those that begin meanwhile. Yields a list that grows by what
    `act` returns for the frame of each call, before the call goes on."""
    code, calls, before = function.__code__, [], sys.getprofile()

    def watch(frame, event, _):
        if event == "call" and frame.f_code is code:
            calls.append(act(frame))

    sys.setprofile(watch)
    threading.setprofile(watch)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
