"""The commands `supervisor` and `subagent-supervisor`, and `python -m supervisor`.

`--version` is answered here, before the library of the command line is imported: that takes most of a command's start.
"""

import io
import os
import signal
import sys
from importlib import metadata
from types import FrameType


def main() -> None:
    """Run the command line and exit with its code."""
    _open_what_is_closed()
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # false if the caller ignores SIGINT
    if is_heard:
        signal.signal(signal.SIGINT, _stop)
    _warn_of_namesake()
    if sys.argv[1:] == ["--version"]:
        _print_version()
        return
    from supervisor.cli import main as run
    from supervisor.system.finalizing import end_process

    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 gets escapes, not a traceback
    end_process(run())


def _stop(number: int, frame: FrameType | None) -> None:
    """End at once: nothing is open while modules are imported, and an exception could be lost inside an import."""
    os.write(2, b"supervisor: stopped\n")
    os._exit(128 + number)


def _open_what_is_closed() -> None:
    """Open /dev/null for each closed standard stream (`>&-`): else the store's file could get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))


def _print_version() -> None:
    try:
        print(f"subagent-supervisor {metadata.version('subagent-supervisor')}", flush=True)
    except BrokenPipeError:  # `supervisor --version | true`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _warn_of_namesake() -> None:
    """PyPI's `supervisor` (supervisord) ships a package of the same name, and one overwrites the other's files."""
    try:
        metadata.distribution("supervisor")
    except metadata.PackageNotFoundError:
        return
    print(
        "supervisor: warning: the distribution `supervisor` (supervisord) is installed here, too. Each overwrites "
        "files of the other: install them in separate environments",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
