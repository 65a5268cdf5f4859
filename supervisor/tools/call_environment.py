"""The environment of a process that a supervised call or run starts (T4): ours, with its mark, without our secrets.

A command has no person in front of it. So its environment says to programs that they must not wait for one: whatever
would show a page, open an editor or ask a question goes on, or fails at once, and says what it missed. The caller's own
`env` has precedence. A coding agent runs other programs, and decides for itself what these get.
"""

import os
from collections.abc import Mapping
from typing import Final

from supervisor.core.marker import CALL_MARKER
from supervisor.system.withheld import is_withheld

_NO_EDITOR: Final = "false there-is-no-person-to-edit-this"
"""An editor that fails at once. Programs quote it in their error, with its argument."""
_NO_VIM: Final = (
    'if resolve("/proc/self/fd/0") ==# "/dev/null" | set shm+=A | exe "au VimEnter * call writefile('
    '[\\"there is no person to edit this\\"], \\"/dev/stderr\\", \\"a\\") | cquit" | endif'
)
"""What Vim and Neovim run first, on Linux. Without an input they would wait for keys at their standard error. Commands
that they are given (`-c`) run before it."""
_NO_ANSWER: Final = "false"
"""A program that is asked for a password, and has none."""

UNATTENDED: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    **dict.fromkeys(("PAGER", "GIT_PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER", "BAT_PAGER", "PSQL_PAGER"), "cat"),
    "AWS_PAGER": "",  # the empty text is its word for none
    **dict.fromkeys(("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "SUDO_EDITOR", "FCEDIT"), _NO_EDITOR),
    "npm_config_editor": _NO_EDITOR,
    "VIMINIT": _NO_VIM,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": _NO_ANSWER,
    "GCM_INTERACTIVE": "never",
    "SSH_ASKPASS": _NO_ANSWER,
    "SSH_ASKPASS_REQUIRE": "force",  # not GIT_SSH_COMMAND: people set that one, with keys and hosts
    "SUDO_ASKPASS": _NO_ANSWER,
    "DEBIAN_FRONTEND": "noninteractive",
    "APT_LISTCHANGES_FRONTEND": "none",
    "NEEDRESTART_MODE": "l",
    "PIP_NO_INPUT": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "POETRY_NO_INTERACTION": "1",
    "npm_config_progress": "false",
    "npm_config_update_notifier": "false",
    "COREPACK_ENABLE_DOWNLOAD_PROMPT": "0",
    "GH_PROMPT_DISABLED": "1",
}
"""What tells programs that no person is there. Nothing here answers a question with yes."""


def environment_of(mark: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of a new process: the supervisor's, `env` added to it.

    `mark` names the operation or session that starts the process. A deciding command below it is refused (A4).
    """
    ours = {name: value for name, value in os.environ.items() if not is_withheld(name, value)}
    return {**ours, **(env or {}), CALL_MARKER: mark}


def environment_of_command(mark: str, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of a command: that of any process, in which no program waits for a person."""
    return environment_of(mark, {**UNATTENDED, **(env or {})})
