"""Commands for the configuration: init, check. None of them opens a store."""

from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from supervisor.cli.answers import say
from supervisor.cli.exits import Exit
from supervisor.core.errors import InvalidInput

DEFAULT: Final = Path("supervisor.toml")
EXAMPLE: Final = """# For `supervisor serve --config FILE`; `supervisor check FILE` says what is wrong with it.
# Paths count from this file's folder. What is commented out shows defaults, or examples.

# The store's file.
store = "state.db"

[server]
host = "127.0.0.1"       # elsewhere than on loopback only people who are configured below are served
port = 8787
# public_url = "https://approvals.example.org"   # how browsers reach it, if through a proxy; https makes cookies secure
# hosts = ["approvals.internal"]                 # further names by which it may be called (DNS rebinding)
# max_streams = 500                              # pages and programs that may listen at once; further ones get a 503

# Agents that can be started by their names. Limits replace those of the declaration.
# [agents.janitor]
# import = "agents.py:janitor"       # FILE.py:NAME or MODULE:NAME
# inactivity_timeout = 60.0          # seconds between two signs of progress; also first_progress_timeout,
#                                    # active_timeout, stop_timeout, call_timeout
# max_children = 100                 # also max_live_children, max_depth
# approvers = ["ana"]                # who alone may decide what it and its sub-agents ask (operators may, too)
# rules = [{ kind = "deny", tool = "shell", pattern = "rm" }]     # from this agent down

# Standing decisions for every tree: deny beats ask beats allow. Patterns as the README says.
# [[rules]]
# kind = "allow"
# tool = "shell"
# pattern = "git status *"
#
# [[rules]]
# kind = "ask"
# tool = "deploy"
# approvers = ["ana"]                # who alone may decide what this rule asks for

# Who may do what. operator: everything. approver: read, and decide. Neither: read, and decide what they asked for.
# `supervisor token` makes a token, for the person, and its hash, for here; `supervisor token revoke` ends one at once.
# [people.ana]
# roles = ["approver"]
# tokens = ["sha256:..."]            # or { hash = "sha256:...", expires_at = 2027-01-31T00:00:00Z }
# identities = { slack = "U012AB3CD", discord = "80351110224678912" }

# Where people are asked, beside the web inbox; README.md says how to make the apps. No secret is written here: they are
# in environment variables, or in files (mode 0600) that are named here.
# [channels.slack]
# conversation = "C012AB3CD"         # where cards go whose session has no thread of its own
# agent = "janitor"                  # what a mention of the app starts; it takes a text
# app = "A012AB3CD"                  # optional, and team = "T012AB3CD": what comes from others is refused
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
    """Write a configuration, commented, to begin with.

    Parameters
    ----------
    file
        Where to; it must not exist.
    """
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(EXAMPLE)
    except FileExistsError:
        raise InvalidInput(f"{file} exists; it was left as it is") from None
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None
    print(file)
    say(f"Edit it, then: supervisor check {file}    and: supervisor serve --config {file}")
    return Exit.DONE


def check(file: Path = DEFAULT, /) -> int:
    """Check a configuration, import the agents that it names, and look for the secrets of chat platforms.

    Nothing is sent anywhere; a platform's secrets are those of this environment, or of the files that are named.

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
        f"{file} is right: {len(agents)} agents, {len(configuration.rules)} rules, {len(configuration.people)} people"
    )
    return Exit.DONE


ConfigOption = Annotated[
    Path | None, Parameter(name="--config", help="A configuration (supervisor init writes one).", show_default=False)
]
