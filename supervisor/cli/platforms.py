"""Commands that register this program with chat platforms."""

from typing import Annotated, Literal

from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
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
    """Register the slash commands with Discord: once, and again after an update.

    They are /start, /say, /stop, /pending, /approve, /deny, /answer, /ack and /snooze. Other commands of the
    application stay.

    The configuration needs [channels.discord], or another table of that kind. The bot's token comes from where `serve`
    reads it.
    """
    import anyio

    from supervisor.core.approvals.people import People
    from supervisor.wiring.config import read_configuration
    from supervisor.wiring.platforms import Table, read_tables

    configuration = read_configuration(config or DEFAULT)
    people = People(configuration.persons())
    tables, problems = read_tables(configuration, people, {}, None, kind="discord")
    if not tables:
        raise InvalidInput(next(iter(problems), f"{config or DEFAULT}: there is no [channels.discord]"))
    for table in tables:  # what else is wrong, such as a missing agent, does not matter here
        for _, problem in table.settings.secret_problems(table.setup):
            raise InvalidInput(f"{config or DEFAULT}: channels.{table.setup.name}: {problem}")

    async def register_commands(table: Table) -> int:
        from supervisor.channels.discord import DiscordRest, DiscordSettings, register
        from supervisor.channels.discord.settings import BOT

        settings = table.settings
        assert isinstance(settings, DiscordSettings)
        async with DiscordRest(settings.take_secret(BOT, table.setup), settings.base_url) as rest:
            return await register(rest, settings.application)

    for table in tables:
        count = anyio.run(register_commands, table, backend=backend)
        say_on_stderr(
            f"Discord knows {count} commands: /start, /say, /stop, /pending, /approve, /deny, /answer, /ack, /snooze"
        )
    return Exit.DONE
