"""Each test has an SDK of its own."""

import pytest
from recorded import sdk


@pytest.fixture
def spans():
    with sdk() as recorded:
        yield recorded
