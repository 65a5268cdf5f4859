"""The commands `supervisor` and `subagent-supervisor`, and `python -m supervisor`."""

import io
import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    _open_what_is_closed()
    from supervisor.cli import main as run

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets escapes, not a traceback
    sys.exit(run())


def _open_what_is_closed() -> None:
    """Give each standard stream that was closed (`>&-`) to nobody: else the store's file could get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


if __name__ == "__main__":
    main()
