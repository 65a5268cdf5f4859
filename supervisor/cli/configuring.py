"""Commands for the configuration: init and check. They open no store."""

import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import BackendOption
from supervisor.core.errors import InvalidInput, SupervisorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from supervisor.core.approvals.routes import Route
    from supervisor.seam.channel import Channel

DEFAULT: Final = Path("supervisor.toml")
ConfigOption = Annotated[
    Path | None,
    Parameter(name="--config", help="A configuration file (supervisor init writes one).", show_default=False),
]
EXAMPLE: Final = """# For `supervisor serve --config FILE`; `supervisor check FILE` says what is wrong with it.
# Paths are relative to this file's folder. Lines that are commented out show defaults or examples.

# The store's file.
store = "state.db"

# Seconds until a run that only waits leaves memory.
# passivate_after = 60.0
# remind_on_start = true             # after a restart, chats get anew the cards that are gone or lie buried

# How soon people hear again of what waits: "low" not in quiet hours, "high" at once. A rule or an agent has its own.
# urgency = "normal"

# What `serve` writes to standard error: "text", or "json" with a document on each line.
# log = "text"

# Spans for OpenTelemetry (needs the extra otel), and whether they hold inputs, arguments and results.
# traces = false
# trace_contents = false

[server]
host = "127.0.0.1"       # on any other address, only the people below are let in
port = 8787
# public_url = "https://approvals.example.org"   # its address behind a proxy; https makes cookies secure
# hosts = ["approvals.internal"]                 # further host names that are accepted (DNS rebinding)
# max_streams = 500                              # pages and programs that may listen at once; more get a 503

# Agents that people can start by name. Limits here replace those of the declaration.
# [agents.janitor]
# import = "agents.py:janitor"       # FILE.py:NAME or MODULE:NAME
# inactivity_timeout = 60.0          # seconds without progress; also first_progress_timeout,
#                                    # active_timeout, stop_timeout, call_timeout, max_timeout
# passivate_after = 600.0            # seconds that a waiting run stays in memory; or "never"
# max_children = 100                 # also max_live_children, max_depth
# approvers = ["ana"]                # only they, and operators, may decide what it and its sub-agents ask
# quorum = 1                         # 2: two of these people must say yes to the same call
# rules = [{ kind = "deny", tool = "shell", pattern = "rm" }]     # for it and its sub-agents

# A coding agent that speaks ACP (needs the extra acp). Rules are about NAME.KIND, such as reviewer.execute.
# [agents.reviewer]
# acp = ["opencode", "acp"]          # the words of its command
# cwd = "."                          # the folder of its sessions; default: the starter's
# env = { MODE = "careful" }         # variables to add to ours; no secrets here

# Standing rules for every session: deny beats ask, and ask beats allow. docs/how-to/rules.md explains patterns.
# [[rules]]
# kind = "allow"
# tool = "shell"
# pattern = "git status *"
#
# [[rules]]
# kind = "ask"
# tool = "deploy"
# approvers = ["ana"]                # only they, and operators, may decide what this rule asks for
# urgency = "high"                   # of what it asks for
# quorum = 1                         # 2: two of these people must say yes to the same call

# Agents that begin by the clock; docs/how-to/schedules.md says more.
# [schedules.nightly]
# agent = "janitor"
# input = "the temporary files"
# cron = "0 3 * * *"                 # minute, hour, day of the month, month, day of the week
# timezone = "Europe/Berlin"         # default: UTC
# if_missed = "once"                 # of the instants at which no daemon ran, begin the last one; or "skip"
# if_running = "skip"                # while the session before is open; or "after" it, "beside" it

# Agents that signed requests to /triggers/NAME start; docs/how-to/triggers.md says more.
# [triggers.push]
# agent = "janitor"
# signed = "github"                  # default: "standard", which is Standard Webhooks
# secret_file = "push.secret"        # or TRIGGER_PUSH_SECRET

# People and their roles. An operator may do everything. An approver may read and decide. A person without a role may
# read, and decide what sessions ask that they started. `supervisor token` makes a token for the person and its hash for
# this file; `supervisor token revoke` revokes one at once.
# [people.ana]
# roles = ["approver"]
# tokens = ["sha256:..."]            # or { hash = "sha256:...", expires_at = 2027-01-31T00:00:00Z }
# quiet = { begins = "22:00", ends = "07:00", zone = "Europe/Berlin" }  # no reminder of low urgency then
# identities = { telegram = "123456789", slack = "U012AB3CD", discord = "80351110224678912" }

# Steps for what stays undecided, one after another. `after`: seconds after the step before.
# [[escalation]]
# after = 900.0
# repeat = 2                         # twice more, 900 seconds after each other
#
# [[escalation]]
# after = 900.0
# whom = ["ana"]                     # may decide it from then on, too
# by = ["ntfy", "slack:@approvers"]  # told there, next to where its card is

# Which channels ask, and which only notify, by agent and tool: the first route that fits counts. Without one, the first
# channel that takes an approval asks.
# [[routes]]
# agent = "janitor"                  # it and its sub-agents; also tool = "deploy"
# ask = ["slack:C012AB3CD", "slack:@approvers"]  # a card in each; @approvers: a direct message to each of them
#
# Where people are asked, besides the web inbox; docs/how-to/ says how to make the apps. Do not write secrets here: put
# them in environment variables, or in files (mode 0600) that are named here.
# [channels.telegram]
# conversation = -1001234567890      # a group's id, or a person's: write /id to the bot
# agent = "janitor"                  # the agent with which people talk there; it takes a text
# bot_token_file = "telegram.token"  # or TELEGRAM_BOT_TOKEN; it needs no public address
#
# [channels.slack]
# conversation = "C012AB3CD"         # for cards of sessions that have no thread of their own
# agent = "janitor"                  # the agent that a mention of the app starts; it takes a text
# app = "A012AB3CD"                  # optional; also team = "T012AB3CD": requests of others are refused
# bot_token_file = "slack.token"     # or SLACK_BOT_TOKEN (xoxb-...)
# signing_secret_file = "slack.sign" # or SLACK_SIGNING_SECRET: Slack posts to https://HOST/channels/slack/requests
# app_token_file = "slack.app"       # or SLACK_APP_TOKEN (xapp-...): Socket Mode, no public address needed
#
# [channels.discord]
# conversation = "1098765432109876543"
# application = "1012345678901234567"
# public_key = "..."                 # Discord posts to https://HOST/channels/discord/interactions
# bot_token_file = "discord.token"   # or DISCORD_BOT_TOKEN
#
# [channels.email]                   # notifies only: a link to the page, which asks people to sign in
# host = "mail.example.org"
# sender = "supervisor@example.org"
# user = "supervisor"
# password_file = "mail.password"    # or EMAIL_PASSWORD
#
# [channels.ntfy]                    # notifies only: a link on phones
# topic = "a-name-that-others-cannot-guess"
# server = "https://ntfy.sh"
# detail = "link"                    # "full" also shows what is asked
#
# [channels.hook]                    # notifies only: a request to a program, signed by Standard Webhooks
# url = "https://hooks.example.org/approvals"
# secret_file = "hook.secret"        # or HOOK_SECRET (whsec_...)
"""


UNIT: Final = """# For systemd: copy it to /etc/systemd/system, then: systemctl enable --now {name}
[Unit]
Description=subagent-supervisor: runs agents, and asks people
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={program} serve --config {configuration}
WorkingDirectory={folder}
User={user}
UMask=0077
Restart=always
RestartSec=2
# Only the daemon is stopped: background jobs go on, and the next start finds them. Its tools are ended by the daemon.
KillMode=process
# The daemon ends within 20 s of the first signal, and says so with 143.
TimeoutStopSec=30
SuccessExitStatus=143
# A wrong command line or configuration does not become right by starting again.
RestartPreventExitStatus=2

[Install]
WantedBy=multi-user.target
"""


def init(
    file: Path = DEFAULT,
    /,
    *,
    systemd: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Write a commented configuration for `serve`, to start from.

    Parameters
    ----------
    file
        The file to write; it must not exist.
    systemd
        Write a unit for systemd instead, which serves this configuration: a file next to it, `supervisor.service`.
    """
    written = file.with_suffix(".service") if systemd else file
    try:
        text = _unit(file, written) if systemd else EXAMPLE
        with written.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise InvalidInput(f"{written} exists already, and was not changed") from None
    except OSError as error:
        raise InvalidInput(f"{written} cannot be written: {error.strerror}") from None
    print(written)
    if systemd:
        say_on_stderr(f"Look at its User and its paths, then: cp {written} /etc/systemd/system/")
    else:
        say_on_stderr(f"Edit it, then: supervisor check {file}, and supervisor serve --config {file}")
    return Exit.DONE


def _unit(configuration: Path, unit: Path) -> str:
    """Return the unit that serves a configuration with the program that writes it, as the user who writes it."""
    from supervisor.system.identity import current_user

    program, folder = Path(sys.executable).with_name("supervisor"), configuration.resolve().parent
    words = {"program": program, "configuration": configuration.resolve(), "folder": folder}
    for word in words.values():
        if any(each.isspace() or each in "%\"'\\$" for each in str(word)):
            raise InvalidInput(f"{word} has a space or a sign that systemd reads in its own way: choose another folder")
    return UNIT.format(name=unit.name, user=current_user(), **words)


def check(
    file: Path | None = None,
    /,
    *,
    config: ConfigOption = None,
    online: bool = False,
    backend: BackendOption = "asyncio",
) -> int:
    """Check a configuration.

    Imports the agents and the kinds of channels that it names, and looks for the secrets of channels in this
    environment and in the files that it names. Contacts no platform, unless you say so.

    Parameters
    ----------
    file
        The configuration; --config FILE means the same. Default: supervisor.toml.
    online
        Also ask each chat platform whether the channel can work there: its token, its rights, its place, and the
        places of routes. This sends no message.
    """
    from supervisor.core.approvals.people import People
    from supervisor.wiring.cautions import cautions
    from supervisor.wiring.config import read_configuration
    from supervisor.wiring.daemon import configured_agents
    from supervisor.wiring.platforms import make_channels, make_reminders, make_routes, read_tables
    from supervisor.wiring.starts import check_starts

    if file is not None and config is not None:
        raise InvalidInput(f"{file} and --config {config} are two configurations: check one after the other")
    file = file or config or DEFAULT
    configuration = read_configuration(file)
    agents = configured_agents(configuration)
    people = People(
        configuration.persons(), configuration.reservations(), configuration.urgencies(), configuration.urgency
    )
    link = configuration.server.public_url
    _, problems = read_tables(configuration, people, agents, link)
    problems += [
        f"{file}: {key}: {text}"
        for key, text in check_starts(configuration.schedules, configuration.triggers, agents, configuration.folder)
    ]
    if problems:
        for problem in problems:
            say_on_stderr(problem)
        return Exit.USAGE
    channels = make_channels(configuration, people, agents, link)
    routes = make_routes(configuration, channels, people)
    make_reminders(configuration, channels, people)
    if configuration.traces:
        import supervisor.traces  # noqa: F401 # raises InvalidInput without the extra
    if online and not _check_online(channels, routes, backend):
        return Exit.USAGE
    for caution in cautions(configuration, agents, configuration.store_file):
        say_on_stderr(f"warning: {caution}")
    counts = f"agents: {len(agents)}, rules: {len(configuration.rules)}, people: {len(configuration.people)}"
    print(f"{file} is valid; {counts}")
    return Exit.DONE


def _check_online(
    channels: "Sequence[Channel]", routes: "Sequence[Route]", backend: Literal["asyncio", "trio"]
) -> bool:
    """Ask each platform, and say what it answers. Return whether all channels can work, and all places of routes."""
    import anyio

    async def ask() -> bool:
        can_work = True
        for channel in channels:
            if channel.people is not None and not channel.people.has_identities(channel.name):
                can_work = False
                say_on_stderr(
                    f"{channel.name}: no person can decide there; write identities = {{ {channel.name} = ... }}"
                )
            for target, there in chain([(channel.name, channel)], _places_of(channel, routes)):
                try:
                    with anyio.fail_after(channel.card_timeout):
                        say_on_stderr(f"{target}: {await there.check() or 'nothing to ask'}")
                except (SupervisorError, OSError) as error:
                    can_work = False
                    say_on_stderr(f"{target}: {error or 'no answer in time'}")
        return can_work

    return anyio.run(ask, backend=backend)


def _places_of(channel: "Channel", routes: "Sequence[Route]") -> "Iterator[tuple[str, Channel]]":
    """Iterate over the targets that routes name at places of a channel. Direct messages are left out: a platform does
    not tell whether it would take them."""
    from supervisor.core.approvals.routes import APPROVERS, split_target

    for target in dict.fromkeys(target for route in routes for target in (*route.ask, *route.notify)):
        name, place = split_target(target)
        if name == channel.name and place not in ("", APPROVERS):
            yield target, channel.at(place)
