"""The commands `supervisor` and `subagent-supervisor`, and `python -m supervisor`."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from supervisor.cli import main as run

    sys.exit(run())


if __name__ == "__main__":
    main()
