"""`supervisor serve`: run a store's sessions, and let people decide in browsers, in chats and over HTTP.

The operator's token comes from `--token-file` or SUPERVISOR_TOKEN. Without one, the command makes a token and prints it
as a link; it is not kept, so that a link in an old log opens nothing after a restart. The variable is removed from the
environment at once, so that no tool inherits it (T4). Where the system can do that, the process is closed to other
processes of the same user (system/closed.py); root can always read it. A file is safer than a variable.
"""

import os
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.configuring import ConfigOption
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, BackendOption, Place
from supervisor.cli.tokens import configured
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import TEMPORAL
from supervisor.system.access import OTHERS_USE, read_text, why_not_ours
from supervisor.system.settling import note_ours
from supervisor.system.withheld import withhold_secret

TOKEN_VARIABLE = "SUPERVISOR_TOKEN"  # noqa: S105 # the name of a variable
GUESSABLE = 16


def serve(
    *agents: str,
    token_file: Annotated[
        Path | None,
        Parameter(name="--token-file", help="A file with the operator's token. Default: $SUPERVISOR_TOKEN."),
    ] = None,
    config: ConfigOption = None,
    host: Annotated[str | None, Parameter(help="The address to listen on. Default: 127.0.0.1.")] = None,
    port: Annotated[int | None, Parameter(help="The port to listen on; 0: any free one. Default: 8787.")] = None,
    mirror: Annotated[
        Path | None,
        Parameter(help="On Temporal: the file with what was read of the namespace. Default: in your state directory."),
    ] = None,
    backend: BackendOption = "asyncio",
    place: Place = HERE,
) -> int:
    """Run a store's sessions, and let people decide in browsers, in chats and over HTTP.

    Parameters
    ----------
    agents
        Files or modules whose agents people can start by name: FILE.py, MODULE, or FILE.py:NAME for one agent.
    """
    from supervisor.core.approvals.people import Person, TokenHash, hash_token, new_token
    from supervisor.system.closed import close_to_others
    from supervisor.system.identity import current_user
    from supervisor.system.logs import write_log
    from supervisor.system.refusals import HELD, WHAT_HOLDS
    from supervisor.wiring.cautions import cautions
    from supervisor.wiring.daemon import Daemon, settle
    from supervisor.wiring.stopping import bare, run_until_stopped

    close_to_others()
    configuration, place = configured(config, place)
    token = read_token(token_file)
    made = new_token() if token is None and not configuration.people else None
    operator = None
    if (shown := token or made) is not None:
        name = current_user() if current_user() not in configuration.people else f"{current_user()} (operator)"
        operator = Person(name=name, roles=("operator",), tokens=(TokenHash(hash_token(shown)),))
    namespace = place.temporal
    if mirror is not None and namespace is None:
        raise InvalidInput(f"--mirror goes with --store {TEMPORAL}")
    store = place.postgres or place.path if namespace is None else mirror or place.mirror
    settings = settle(
        configuration,
        store=store,
        agents=agents,
        host=host,
        port=port,
        operator=operator,
        temporal=namespace,
    )
    daemon = Daemon(settings)
    write_log(configuration.log)
    names = ", ".join(sorted(settings.agents)) or "no agents; name files with agents to offer them"

    def is_open() -> None:
        say_on_stderr(f"Serving {namespace or place.where} on {daemon.url} ({names})")
        in_file = place.path if namespace is None and place.postgres is None else None
        for caution in cautions(configuration, settings.agents, in_file):
            say_on_stderr(f"warning: {caution}")
        if not HELD:
            say_on_stderr(f"Note: {WHAT_HOLDS}")
        if made is not None:
            say_on_stderr(f"Open {daemon.url}/login?token={quote(made)}")
            say_on_stderr(
                "The link and its logins are valid until this process ends; "
                f"for a lasting token: --token-file or ${TOKEN_VARIABLE}"
            )

    return run_until_stopped(bare(partial(daemon.run, is_open)), backend) or Exit.DONE


def read_token(file: Path | None) -> str | None:
    """Return the operator's token from the file or the environment; None if there is none. Raises InvalidInput."""
    given = os.environ.pop(TOKEN_VARIABLE, None)
    if file is None:
        token = given
    else:
        try:
            token = read_text(file)
            note_ours(file)
            if (readers := why_not_ours(file, OTHERS_USE)) is not None:
                say_on_stderr(f"warning: {readers}")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InvalidInput(f"cannot read the token in {file}: {why}; make one with: openssl rand -hex 32") from None
    if token is None:
        return None
    if not token.strip():
        raise InvalidInput("the token is empty; make one with: openssl rand -hex 32")
    if len(token.strip()) < GUESSABLE:  # guessing locks no address out (channels/web/auth.py)
        raise InvalidInput(
            f"a token of fewer than {GUESSABLE} characters can be guessed; make one with: openssl rand -hex 32"
        )
    withhold_secret(token)
    return token.strip()
