"""Daemons on both backends, each in a process of its own, and browsers; none outlives its test."""

import signal

import pytest
from browsers import Person, open_chromium
from daemons import DaemonProcess


@pytest.fixture(params=["asyncio", "trio"])
def daemon(request, tmp_path):
    made = DaemonProcess(tmp_path, request.param)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.wait()


@pytest.fixture
def one_daemon(tmp_path):
    """What depends on the page alone is tried on one backend."""
    made = DaemonProcess(tmp_path, "asyncio")
    made.start()
    yield made
    made.stop(signal.SIGKILL)


@pytest.fixture(scope="module")
def browser():
    """One for all tests of the module: starting it takes longer than most of them."""
    with open_chromium() as started:
        yield started


@pytest.fixture
def person(browser):
    """Let people sit down at browsers of their own; at the end none of their pages may have complained."""
    seated = []

    def sit_down(daemon, **options):
        seated.append(Person(browser, daemon, **options))
        return seated[-1]

    yield sit_down
    for each in seated:
        each.leave()
