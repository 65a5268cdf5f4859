"""Commands for the configuration: init and check. They open no store."""

from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from supervisor.cli.answers import say
from supervisor.cli.exits import Exit
from supervisor.core.errors import InvalidInput

DEFAULT: Final = Path("supervisor.toml")
EXAMPLE: Final = """# For `supervisor serve --config FILE`; `supervisor check FILE` says what is wrong with it.
# Paths are relative to this file's folder. Lines that are commented out show defaults or examples.

# The store's file.
store = "state.db"

# Seconds until a run that only waits leaves memory, and until people are told again of an approval that still waits.
# passivate_after = 60.0
# remind_after = 3600.0              # default: never
# escalate_after = 3600.0            # after the reminder; then these people may decide it, too
# escalate_to = ["ana"]

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
#                                    # active_timeout, stop_timeout, call_timeout
# passivate_after = 600.0            # seconds that a waiting run stays in memory; or "never"
# max_children = 100                 # also max_live_children, max_depth
# approvers = ["ana"]                # only they, and operators, may decide what it and its sub-agents ask
# rules = [{ kind = "deny", tool = "shell", pattern = "rm" }]     # for it and its sub-agents

# A coding agent that speaks ACP (needs the extra acp). Rules are about NAME.KIND, such as reviewer.execute.
# [agents.reviewer]
# acp = ["opencode", "acp"]          # the words of its command
# cwd = "."                          # the folder of its sessions; default: the starter's
# env = { MODE = "careful" }         # variables to add to ours; no secrets here

# Standing rules for every session: deny beats ask, and ask beats allow. README.md explains patterns.
# [[rules]]
# kind = "allow"
# tool = "shell"
# pattern = "git status *"
#
# [[rules]]
# kind = "ask"
# tool = "deploy"
# approvers = ["ana"]                # only they, and operators, may decide what this rule asks for

# People and their roles. An operator may do everything. An approver may read and decide. A person without a role may
# read, and decide what sessions ask that they started. `supervisor token` makes a token for the person and its hash for
# this file; `supervisor token revoke` revokes one at once.
# [people.ana]
# roles = ["approver"]
# tokens = ["sha256:..."]            # or { hash = "sha256:...", expires_at = 2027-01-31T00:00:00Z }
# identities = { slack = "U012AB3CD", discord = "80351110224678912" }

# Where people are asked, besides the web inbox; README.md says how to make the apps. Do not write secrets here: put
# them in environment variables, or in files (mode 0600) that are named here.
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
"""


def init(file: Path = DEFAULT, /) -> int:
    """Write a commented configuration for `serve`, to start from.

    Parameters
    ----------
    file
        The file to write; it must not exist.
    """
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(EXAMPLE)
    except FileExistsError:
        raise InvalidInput(f"{file} exists already, and was not changed") from None
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None
    print(file)
    say(f"Edit it, then: supervisor check {file}, and supervisor serve --config {file}")
    return Exit.DONE


def check(file: Path = DEFAULT, /) -> int:
    """Check a configuration.

    Imports the agents that it names, and looks for the secrets of chat platforms in this environment and in the files
    that it names. Sends nothing.

    Parameters
    ----------
    file
        The configuration.
    """
    from supervisor.config import read_configuration
    from supervisor.daemon import configured_agents
    from supervisor.platforms import channel_problems

    configuration = read_configuration(file)
    agents = configured_agents(configuration)
    if problems := channel_problems(configuration, agents):
        for problem in problems:
            say(f"{file}: {problem}")
        return Exit.USAGE
    print(
        f"{file} is valid: {len(agents)} agents, {len(configuration.rules)} rules, {len(configuration.people)} people"
    )
    return Exit.DONE


ConfigOption = Annotated[
    Path | None,
    Parameter(name="--config", help="A configuration file (supervisor init writes one).", show_default=False),
]
