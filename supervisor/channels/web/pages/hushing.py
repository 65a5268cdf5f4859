"""A person says on a page that they are on what waits, or want to hear of it later (A10).

    POST /hushes    `one.ID` for each approval that the page showed; `hush`: "on", or the minutes of a snooze

Rules
- It decides nothing and gives no right. The command checks who may say it.
- The form names what the page showed. What came since then is not meant.
- To say it twice is to say it once: a page whose answer was lost asks what the server knows, and may send it again.
"""

from datetime import timedelta
from typing import Final

from starlette.responses import Response

from supervisor.channels.web.pages.together import TICK
from supervisor.channels.web.pages.visits import Visit
from supervisor.core.approvals.facts import instant_text
from supervisor.core.errors import InvalidInput
from supervisor.seam.commands import MOST_HUSHED

LATER: Final = {"30": "30 minutes", "120": "2 hours", "480": "8 hours"}
"""The minutes of a snooze that a page offers, and their words."""


async def hush(visit: Visit) -> Response:
    ids = [name.removeprefix(TICK) for name in visit.form if name.startswith(TICK)][:MOST_HUSHED]
    said, by = visit.form.get("hush", ""), visit.person.name
    if said == "on":
        done = await visit.supervisor.acknowledge(ids, by=by, channel="web")
        what = "You are on {}, for 30 minutes."
    elif said in LATER:
        until = visit.now + timedelta(minutes=int(said))
        done = await visit.supervisor.snooze(ids, until, by=by, channel="web")
        what = f"You hear nothing of {{}} until {instant_text(until, visit.now)}."
    else:
        raise InvalidInput(
            "the form says neither that you are on it nor when you want to hear of it; load the page again"
        )
    number = "it" if len(done) == 1 == len(ids) else str(len(done))
    text = f"{what.format(number)} Nothing is decided." if done else "Nothing of that waits any more."
    return await visit.page("message.html", "inbox", {"title": "Done" if done else "Nothing done", "text": text})
