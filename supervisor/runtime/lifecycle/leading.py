"""Which process listens to a channel, where machines share a store: the one that owns a tree of the channel's name.

Theory: a platform gives what people do to one listener, or to each one. So one process listens, as its leader, and the
others wait for its end. Ownership says who it is, and so the fence of the store covers what it decides: a leader that
was paused for so long that another one took over commits no decision.
"""

from typing import Final

import anyio

from supervisor.core.errors import StoreDied, StoreError, TreeOwned
from supervisor.runtime.journal.writer import Entry, Journal, View
from supervisor.system.logs import FactLog

log = FactLog(__name__)

LOOK_SECONDS: Final = 1.0


def root_of_channel(name: str) -> str:
    """Return the name under which a channel is owned; no session has it."""
    return f"~channel:{name}"


async def until_leading(journal: Journal, channel: str) -> None:
    """Wait until this process is the one that listens to a channel. Raises StoreDied."""
    root = root_of_channel(channel)

    def plan(view: View) -> list[Entry]:
        view.claim(root)
        return []

    while not journal.store.owns(root):
        try:
            if journal.store.get_owner(root) is None:
                await journal.append(plan)
                log.info("channel.led", channel=channel)
                return
        except TreeOwned:
            pass  # another process was faster
        except StoreDied:
            raise
        except StoreError as error:
            log.warning("channel.not_led", channel=channel, reason=str(error))
        await anyio.sleep(LOOK_SECONDS)
