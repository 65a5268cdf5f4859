"""The text that an agent writes, next to a store and over HTTP. On Temporal it stays empty, which
test_temporal_differences.py shows."""

import pytest
from remote_agents import writing
from sides import side

from supervisor import NotFound

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", ["local", "remote"])]


async def test_the_text_that_an_agent_writes_is_seen_until_it_is_said(kind):
    """First as it is."""
    async with side(kind) as here:
        await here.supervisor.start(writing, requester="olga", session="text")
        async with here.supervisor.watch_session("text", stay=True) as journal:
            await anext(journal)
        async with here.supervisor.watch_text("text") as watch:
            seen = [await anext(watch)]
            while "low" not in seen[-1].text:
                seen.append(await anext(watch))
            await here.supervisor.send("text", "say it", by="olga")
            while seen[-1].text:
                seen.append(await anext(watch))
        assert seen[-1].text == ""
        with pytest.raises(NotFound):
            async with here.supervisor.watch_text("nowhere"):
                pass
