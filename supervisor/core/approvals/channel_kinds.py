"""The kinds of channels that come with this package: where each is, what it needs, and its secrets. Pure.

Theory: a secret of a channel is in an environment variable, or in a file. No command that a supervised call runs may
see the variable (T4), also in a program that serves no channel. So this table is known without an import of any kind:
the channels, the configuration and the environment of commands read it (platforms.py, system/withheld.py).
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

ENTRY_POINTS: Final = "subagent_supervisor.channels"
"""The group of entry points by which a distribution offers kinds of channels."""


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret of a channel. `key`: its name, as in "bot_token"; `where`: where an operator finds it; `form`: a regular
    expression that it matches as a whole."""

    key: str
    where: str
    form: str = r"\S+"
    is_required: bool = True

    def variable(self, name: str) -> str:
        """Return the environment variable that holds it for the channel of this name, such as SLACK_BOT_TOKEN."""
        return f"{name}_{self.key}".upper().replace("-", "_")


class Kind(NamedTuple):
    """Where a kind of ours is, the extra that installs what it needs, if it needs anything, and its secrets."""

    where: str
    extra: str | None = None
    secrets: tuple[Secret, ...] = ()


_LETTER: Final = "[A-Za-z0-9+/]"
_SLACK: Final = (
    Secret(key="bot_token", form=r"(xoxe\.)?xoxb-.+", where="xoxb-..., on OAuth & Permissions"),
    Secret(key="signing_secret", form=r".+", where="on Basic Information", is_required=False),
    Secret(key="app_token", form=r"xapp-.+", where="xapp-..., on Basic Information", is_required=False),
)
_DISCORD: Final = Secret(key="bot_token", form=r"[^ ]+", where="without the word Bot, on Bot")
_TELEGRAM: Final = Secret(
    key="bot_token", form=r"[0-9]+:[A-Za-z0-9_-]+", where="123456:..., in the chat with @BotFather"
)
_EMAIL: Final = Secret(key="password", form=r"[^\r\n]+", where="of your mail provider", is_required=False)
_NTFY: Final = Secret(key="token", form=r"tk_\w+", where="tk_..., in the account's settings", is_required=False)
_HOOK: Final = Secret(
    key="secret",
    form=rf"whsec_({_LETTER}{{4}}){{8,21}}({_LETTER}{{4}}|{_LETTER}{{3}}=|{_LETTER}{{2}}==)?",
    where='"whsec_" and the base64 of 24 to 64 random bytes',
)
KINDS: Final[Mapping[str, Kind]] = {
    "ntfy": Kind("supervisor.channels.notices:NtfySettings", "ntfy", (_NTFY,)),
    "hook": Kind("supervisor.channels.notices:HookSettings", "hook", (_HOOK,)),
    "slack": Kind("supervisor.channels.slack:SlackSettings", "slack", _SLACK),
    "discord": Kind("supervisor.channels.discord:DiscordSettings", "discord", (_DISCORD,)),
    "telegram": Kind("supervisor.channels.telegram:TelegramSettings", "telegram", (_TELEGRAM,)),
    "email": Kind("supervisor.channels.mail:EmailSettings", None, (_EMAIL,)),
}
