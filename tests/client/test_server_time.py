"""The clock of the server is what counts: an instant of this machine is sent as the server's."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from wires import answer, greeting, wired

from supervisor import open_remote

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("ahead", [timedelta(hours=3), timedelta(hours=-3)])
async def test_a_word_says_in_the_servers_time_what_its_person_had_seen(ahead):
    """Never later than the truth: what was asked afterwards must not be decided by it."""
    async with wired(lambda request: answer({"kind": "listed"})) as wire:
        wire.greets = lambda request: greeting(now=(datetime.now(UTC) + ahead).isoformat())
        async with open_remote(wire.url, token="token-of-olga") as remote:
            seen = datetime.now(UTC) - timedelta(minutes=5)
            await remote.chat("s", "yes", shown_before=seen)
            await remote.chat("s", "yes")
            now = datetime.now(UTC)
    given, default = (msgspec.json.decode(each.body)["shown_before"] for each in wire.said)
    assert seen + ahead - timedelta(seconds=10) < datetime.fromisoformat(given) <= seen + ahead
    assert now + ahead - timedelta(seconds=10) < datetime.fromisoformat(default) <= now + ahead
