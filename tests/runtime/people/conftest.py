"""Days of virtual time, in which a daemon looks for lost owners twice a minute instead of each second."""

import pytest

from supervisor.runtime.lifecycle import claim
from supervisor.testing import replaced


@pytest.fixture(autouse=True)
def seldom_looks():
    """No test of people is about the look, and 86,400 of them take a second of a core."""
    with replaced(claim, "LOOK_SECONDS", 30.0):
        yield
