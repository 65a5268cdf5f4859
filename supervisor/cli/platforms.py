"""Commands that register this program with chat platforms."""

from typing import Annotated, Literal

from cyclopts import Parameter

from supervisor.cli.answers import say
from supervisor.cli.configuring import DEFAULT, ConfigOption
from supervisor.cli.exits import Exit
from supervisor.cli.options import BackendOption
from supervisor.core.errors import InvalidInput


def discord(
    action: Annotated[Literal["register"], Parameter(help="register: register the slash commands.")],
    /,
    *,
    config: ConfigOption = None,
    backend: BackendOption = "asyncio",
) -> int:
    """Register /pending, /approve, /deny and /answer with Discord: once, and again after an update.

    The configuration needs [channels.discord]. The bot's token comes from where `serve` reads it.
    """
    import anyio

    from supervisor.config import read_configuration
    from supervisor.platforms import discord_token

    configuration = read_configuration(config or DEFAULT)
    part = configuration.channels.discord
    if part is None:
        raise InvalidInput(f"{config or DEFAULT}: there is no [channels.discord]")
    token, application, url = discord_token(configuration, part), part.application, part.base_url

    async def register_commands() -> int:
        from supervisor.channels.discord import DiscordRest, register

        async with DiscordRest(token, url) as rest:
            return await register(rest, application)

    say(f"Discord knows {anyio.run(register_commands, backend=backend)} commands: /pending, /approve, /deny, /answer")
    return Exit.DONE
