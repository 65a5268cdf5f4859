"""A storage driver of the user in the place of the folder: one of temporalio, such as one for an object store."""

import os
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from temporal_server import namespace, working
from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriver, StorageDriverClaim

from supervisor import Context, ServerError, agent, tool
from supervisor.temporal import open_temporal
from supervisor.temporal.payloads import VARIABLE

pytestmark = pytest.mark.anyio
LARGE = 2_200_000
"""More than a server takes in one document."""


class Drawer(StorageDriver):
    """Stands for a driver of an object store: its objects are in the folder DRAWER. A file `lock` there keeps all out,
    and a file `unread` lets one attempt to read the arguments of a call fail."""

    def __init__(self) -> None:
        self._folder = Path(os.environ["DRAWER"])

    def name(self) -> str:
        return "drawer"

    async def store(self, context, payloads):
        self._enter()
        stored = [each.SerializeToString() for each in payloads]
        claims = [StorageDriverClaim({"key": sha256(each).hexdigest()}) for each in stored]
        for claim, content in zip(claims, stored, strict=True):
            (self._folder / claim.claim_data["key"]).write_bytes(content)
        return claims

    async def retrieve(self, context, claims):
        self._enter()
        found = [(self._folder / each.claim_data["key"]).read_bytes() for each in claims]
        unread = self._folder / "unread"
        if unread.exists() and any(b'"reference"' in each for each in found):  # the arguments of a call
            unread.unlink()
            raise TimeoutError
        return [Payload.FromString(each) for each in found]

    def _enter(self) -> None:
        if (self._folder / "lock").exists():
            raise LookupError("the drawer\nis locked")


@pytest.fixture(autouse=True)
async def bounded():
    """No wait of these tests is long."""
    with anyio.fail_after(120):
        yield


@pytest.fixture
def drawer(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAWER", str(tmp_path))
    monkeypatch.setenv(VARIABLE, f"{__name__}:Drawer")
    return tmp_path


@tool(policy="allow")
async def repeating(text: str, times: int) -> str:
    return text * times


@agent
async def large(ctx: Context, text: str) -> list[str]:
    result = await ctx.call(repeating, text, 2)
    return [result.kind, result.content]


async def test_a_driver_of_the_user_has_the_large_payloads(drawer):
    """Input, arguments, result and outcome; the worker and the client have a driver each."""
    url = await namespace()
    async with working(url, [large], cached=1), open_temporal(url) as supervisor:
        run = await supervisor.start(large, "x" * LARGE)
        with anyio.fail_after(60):
            assert await run.result() == ["ok", "x" * 2 * LARGE]
    assert max(each.stat().st_size for each in drawer.iterdir()) > 2 * LARGE


async def test_a_driver_that_fails_is_named_and_what_it_keeps_is_waited_for(drawer):
    """A start is refused in one line. A call whose arguments cannot be read has not begun, and runs once they can."""
    url, lock = await namespace(), drawer / "lock"
    said = f"{VARIABLE}: {__name__}:Drawer cannot store a payload: LookupError: the drawer is locked"
    async with working(url, [large]), open_temporal(url) as supervisor:
        lock.touch()
        with pytest.raises(ServerError) as refused:
            await supervisor.start(large, "x" * LARGE)
        assert str(refused.value) == said
        lock.unlink()
        (drawer / "unread").touch()
        run = await supervisor.start(large, "x" * LARGE)
        assert await run.result() == ["ok", "x" * 2 * LARGE]
        assert not (drawer / "unread").exists()
