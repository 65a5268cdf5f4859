"""The commands `supervisor` and `subagent-supervisor`, and `python -m supervisor`."""

import io
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from supervisor.cli import main as run

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets escapes, not a traceback
    sys.exit(run())


if __name__ == "__main__":
    main()
