"""`supervisor --install-completion`: let the shell complete commands and options.

A script for each name of the program is written once, from the commands as they are, so that a TAB starts no program.
"""

import sys
from pathlib import Path
from typing import Annotated, Final, Literal

from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.core.errors import InvalidInput

NAMES: Final = ("supervisor", "subagent-supervisor")
"""The console scripts of the distribution."""


def install_completion(
    *,
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        Parameter(help="The shell; by default the one that started this command."),
    ] = None,
    output: Annotated[
        Path | None,
        Parameter(
            help="Write one script here, for the name of this call, and change no start-up file.",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Write scripts that complete commands and options, and load them in the start-up file of the shell.

    Run it again after an upgrade: the scripts have the commands of the version that wrote them. Fish loads them
    without a change of a start-up file. In zsh, `compinit` must run in ~/.zshrc, as in most set-ups.
    """
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    from supervisor.cli import make_app

    try:
        chosen = shell or detect_shell()
    except ShellDetectionError:
        raise InvalidInput("cannot tell which shell this is: add --shell bash, --shell zsh or --shell fish") from None
    called = Path(sys.argv[0]).name
    names = NAMES if output is None else [called if called in NAMES else NAMES[0]]
    for name in names:
        app = make_app(program=name)
        print(app.install_completion(shell=chosen, output=output, add_to_startup=output is None))
    say_on_stderr(
        "Every shell that starts from now on completes them."
        if output is None
        else "Load it in your shell's start-up file."
    )
    return 0
