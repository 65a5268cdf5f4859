"""A read whose store does not answer for a moment is made again, and a person never waits for long."""

import anyio
import pytest

from supervisor.runtime.clock.patience import endless, patient
from supervisor.seam.store import StoreAway

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


def away_for(seconds):
    """A read that is answered from an instant on."""
    begun = anyio.current_time()

    async def read():
        if anyio.current_time() < begun + seconds:
            raise StoreAway("away")
        return "read"

    return read


@pytest.mark.slow
async def test_a_read_waits_for_a_moment_and_an_outcome_as_long_as_it_takes():
    """`find_approvals` fails after a second; `outcome` waits for the end of a run anyway."""
    assert await patient(away_for(StoreAway.moment_seconds / 2))() == "read"
    with pytest.raises(StoreAway):
        await patient(away_for(60.0))()
    assert await endless(away_for(3600.0))() == "read"
