"""Watch whether channels can reach people.

Rules
- A channel is asked at the start, and then every CHECKED seconds; while it is down, every `check_again` seconds. A
  channel without a check of its own is never asked: cards that fail show that it is down (cards.py).
- A change is logged once, and so is another reason. What a check found at the start is logged, too.
- A channel that is down still gets cards: a card that fails goes to the next channel, and is tried again (A11).
"""

import anyio

from supervisor.core.encoding import printable_text
from supervisor.core.errors import SupervisorError
from supervisor.seam.channel import Channel
from supervisor.system.logs import FactLog

log = FactLog(__name__)

CHECKED_SECONDS = 60.0


async def watch_channel(channel: Channel, scope: anyio.CancelScope) -> None:
    """Keep `channel.down` true until the scope is cancelled."""
    if type(channel).check is Channel.check:
        return
    found: str | None = None
    with scope:
        while True:
            was_down = channel.down
            try:
                with anyio.fail_after(channel.card_timeout):
                    now = await channel.check()
            except (SupervisorError, OSError) as error:
                channel.down = printable_text(str(error) or repr(error))
            except Exception as error:  # noqa: BLE001 # a channel may raise anything; it serves all the same
                channel.down = printable_text(repr(error))
            else:
                channel.down = None
                if was_down is not None:
                    channel.failing = None
                if was_down is not None or now != found:
                    log.info("channel.up", channel=channel.name, found=now)
                found = now
            if channel.down is not None and channel.down != was_down:
                log.warning("channel.down", channel=channel.name, reason=channel.down, again_in=channel.check_again)
            await anyio.sleep(CHECKED_SECONDS if channel.down is None else channel.check_again)
