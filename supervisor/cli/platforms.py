"""Commands for chat platforms: what must be made known to them once."""

from typing import Annotated, Literal

from cyclopts import Parameter

from supervisor.cli.answers import say
from supervisor.cli.configuring import DEFAULT, ConfigOption
from supervisor.cli.exits import Exit
from supervisor.cli.options import BackendOption
from supervisor.core.errors import InvalidInput


def discord(
    action: Annotated[Literal["register"], Parameter(help="register: make the slash commands known.")],
    /,
    *,
    config: ConfigOption = None,
    backend: BackendOption = "asyncio",
) -> int:
    """Make /pending, /approve, /deny and /answer known to Discord: once, and again after an update.

    It needs [channels.discord] in the configuration, and the bot's token as `serve` does.
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
