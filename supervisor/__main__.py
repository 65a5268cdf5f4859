"""The commands `supervisor` and `subagent-supervisor`, and `python -m supervisor`."""

import io
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line and exit with its code."""
    _open_what_is_closed()
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # false if the caller ignores SIGINT
    if is_heard:
        signal.signal(signal.SIGINT, _stop)
    from supervisor.cli import main as run

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets escapes, not a traceback
    sys.exit(run())


def _stop(number: int, frame: FrameType | None) -> None:
    """End at once: nothing is open while modules are imported, and an exception could be lost inside an import."""
    os.write(2, b"supervisor: stopped\n")
    os._exit(128 + number)


def _open_what_is_closed() -> None:
    """Open /dev/null for each closed standard stream (`>&-`): else the store's file could get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


if __name__ == "__main__":
    main()
