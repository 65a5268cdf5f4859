"""`supervisor --install-completion`: let the shell complete commands and options.

The script is written once, from the commands as they are, so that a TAB starts no interpreter.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from supervisor.cli.answers import say
from supervisor.core.errors import InvalidInput


def install_completion(
    *,
    shell: Annotated[
        Literal["bash", "zsh", "fish"] | None,
        Parameter(help="The shell; by default the one that started this command."),
    ] = None,
    output: Annotated[
        Path | None, Parameter(help="Write the script here, and change no start-up file.", show_default=False)
    ] = None,
) -> int:
    """Write a script that completes commands and options, and load it in the start-up file of the shell.

    Run it again after an upgrade: the script has the commands of the version that wrote it. Fish loads it without a
    change of a start-up file. In zsh, `compinit` must run in ~/.zshrc, as in most set-ups.
    """
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    from supervisor.cli import make_app

    try:
        chosen = shell or detect_shell()
    except ShellDetectionError:
        raise InvalidInput("cannot tell which shell this is: add --shell bash, --shell zsh or --shell fish") from None
    path = make_app().install_completion(shell=chosen, output=output, add_to_startup=output is None)
    print(path)
    say(
        "Every shell that starts from now on completes them."
        if output is None
        else "Load it in your shell's start-up file."
    )
    return 0
