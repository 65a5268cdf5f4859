"""Socket Mode: the log tells the state of its connection."""

import anyio
import pytest

from supervisor.channels.slack.socket import LOOK_SECONDS, say_when_gone

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


async def test_a_connection_that_is_gone_is_said_until_it_is_there_again(caplog):
    """The SDK tries again for ever, and says nothing that is heard: a revoked token must not look like silence."""
    seen, noted = [True, False, False, True, True], []
    with anyio.move_on_after(len(seen) * LOOK_SECONDS + 1):
        await say_when_gone(lambda: seen.pop(0), noted.append)
    assert (seen, len(caplog.records)) == ([], 3)
    assert noted == [True, False, False, True, True]
