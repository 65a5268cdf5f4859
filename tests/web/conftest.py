"""Daemons on both backends, each in a process of its own; none outlives its test."""

import pytest
from daemons import DaemonProcess


@pytest.fixture(params=["asyncio", "trio"])
def daemon(request, tmp_path):
    made = DaemonProcess(tmp_path, request.param)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()
