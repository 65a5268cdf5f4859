"""Large payloads are files in a folder that workers and clients share, and a codec of the user stands before them."""

import os
import random
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from temporal_server import namespace, working
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec, StorageDriverClaim, StorageDriverRetrieveContext

from supervisor import Approve, Context, InvalidInput, ServerError, ToolFailed, agent, tool
from supervisor.events import ToolCallFinished
from supervisor.temporal import open_temporal, payloads
from supervisor.temporal.payloads import VARIABLE, PayloadFolder, PayloadMissing
from supervisor.temporal.settings import CODEC, PayloadsInUtf8
from supervisor.temporal.wire import NOT_HERE
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
LARGE = 2_200_000
"""More than a server takes in one document."""


@tool
async def repeating(text: str, times: int) -> str:
    return text * times


@agent
async def large(ctx: Context, text: str) -> list[str]:
    """Gives a large argument, and gets a larger result, after a person has approved it."""
    result = await ctx.call(repeating, text, 2)
    return [result.kind, result.content]


@tool(policy="allow")
async def echoing(text: str) -> str:
    return text


@agent
async def accented(ctx: Context, text: str) -> str:
    """Gives an argument and gets a result which are as large as may be without a folder."""
    return (await ctx.call(echoing, text)).content


@agent
async def quoting(ctx: Context, number: int) -> str:
    await ctx.call(echoing, '"' * number)
    return await ctx.ask("Well?")


@tool(policy="allow")
async def complaining() -> None:
    raise ToolFailed("x" * 1_048_500, more="y" * 1_048_500)


@agent
async def listening(ctx: Context) -> list[str]:
    result = await ctx.call(complaining)
    return [result.kind, result.content]


class Reversing(PayloadCodec):
    """Stands for one that encrypts."""

    async def encode(self, payloads):
        return [Payload(metadata={"encoding": b"reversed"}, data=each.SerializeToString()[::-1]) for each in payloads]

    async def decode(self, payloads):
        return [Payload.FromString(each.data[::-1]) for each in payloads]


@pytest.fixture(autouse=True)
async def bounded():
    with anyio.fail_after(120):
        yield


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of payloads, which the environment names."""
    found = tmp_path / "payloads"
    found.mkdir(mode=0o750)
    monkeypatch.setenv(VARIABLE, str(found))
    return found


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


async def decided(url: str, text: str):
    """Run `large` to its end: input, argument, result, outcome and entries are all large."""
    async with open_temporal(url) as supervisor:
        run = await supervisor.start(large, text)
        async with run.watch_approvals() as watch:
            await supervisor.decide((await anext(watch)).id, Approve(by="ana"))
        outcome = await run.outcome()
        return outcome, await supervisor.find_entries(run.session, limit=None)


async def test_a_payload_larger_than_a_server_takes_goes_through_files(folder):
    """On a worker with a memory for one session, so that all of it is read again; and the server has none of it."""
    url = await namespace()
    async with working(url, [large], cached=1):
        outcome, entries = await decided(url, "x" * LARGE)
    assert outcome.value == ["ok", "x" * 2 * LARGE]
    assert len(entries) > 5
    assert max(each.stat().st_size for each in files(folder)) > 2 * LARGE
    assert {each.stat().st_mode & 0o777 for each in files(folder)} == {0o640}
    assert not list(folder.rglob(".writing-*"))
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    async for each in client.list_workflows():
        assert len((await client.get_workflow_handle(each.id).fetch_history()).to_json()) < 1_000_000


async def test_a_codec_of_the_user_encodes_what_the_server_and_the_folder_have(folder, monkeypatch):
    """All but ids: those of sessions and approvals, and those of operations, which have the names of tools."""
    monkeypatch.setenv(CODEC, f"{__name__}:Reversing")
    url = await namespace()
    async with working(url, [large]):
        outcome, _ = await decided(url, "known text " * 50_000)
    assert outcome.value[1] == "known text " * 100_000
    assert all(b"known text" not in each.read_bytes() for each in files(folder))
    monkeypatch.delenv(CODEC)
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    async for each in client.list_workflows():
        history = await client.get_workflow_handle(each.id).fetch_history()
        assert all(b"known text" not in event.SerializeToString() for event in history.events)


@pytest.mark.soak
async def test_a_worker_without_the_folder_leaves_work_to_one_that_has_it(folder, monkeypatch):
    """The tree waits; nothing of it is lost."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        monkeypatch.delenv(VARIABLE)
        async with working(url, [large]):
            run = await supervisor.start(large, "x" * LARGE)
            await anyio.sleep(1)
        monkeypatch.setenv(VARIABLE, str(folder))
        async with working(url, [large]):
            async with run.watch_approvals() as watch:
                await supervisor.decide((await anext(watch)).id, Approve(by="ana"))
            assert (await run.outcome()).value == ["ok", "x" * 2 * LARGE]


async def test_without_a_folder_a_large_input_is_refused(monkeypatch):
    """With the variable that names one."""
    monkeypatch.delenv(VARIABLE, raising=False)
    url = await namespace()
    async with open_temporal(url) as supervisor:
        with pytest.raises(InvalidInput, match=VARIABLE):
            await supervisor.start(large, "x" * LARGE)


async def test_the_text_and_the_details_of_a_failure_count_together(monkeypatch):
    """Each is within the limit. Sent together, they would be more than a server takes."""
    monkeypatch.delenv(VARIABLE, raising=False)
    url = await namespace()
    with anyio.fail_after(60):
        async with working(url, [listening]), open_temporal(url) as supervisor:
            outcome = await (await supervisor.start(listening)).outcome()
    assert outcome.value[0] == "error"
    assert "the result of complaining has 2097" in outcome.value[1]


async def test_a_letter_outside_of_ascii_counts_as_its_bytes_in_utf_8(monkeypatch):
    """So an input, an argument, a result and an outcome within the limit are sent. Escaped, they have three times as
    much, and are refused."""
    monkeypatch.delenv(VARIABLE, raising=False)
    url, text = await namespace(), "é" * 500_000
    async with working(url, [accented]), open_temporal(url) as supervisor:
        outcome = await (await supervisor.start(accented, text)).outcome()
    assert (outcome.kind, outcome.value) == ("succeeded", text)


async def test_arguments_and_a_result_that_are_all_quotes_are_read_without_a_folder(monkeypatch):
    """Within the limit. The entry of the result has it twice, and a reader's JSON would escape each quote again."""
    monkeypatch.delenv(VARIABLE, raising=False)
    url = await namespace()
    async with working(url, [quoting]), open_temporal(url) as supervisor:
        await supervisor.start(quoting, 520_000, session="s")
        while not await supervisor.find_approvals():
            await anyio.sleep(0.1)
        (ended,) = [row.event for row in await supervisor.find_entries("s") if isinstance(row.event, ToolCallFinished)]
        assert ended.content == '"' * 520_000


async def test_a_converter_decodes_what_it_encodes_as_the_usual_one_does():
    """Each reads what the other one has written; also lone surrogates, of which JSON joins two that fit."""
    ours = DataConverter(payload_converter_class=PayloadsInUtf8).payload_converter
    usual = DataConverter().payload_converter
    texts = ["é", "\N{GRINNING FACE}", "\ufeff", 'a\ude00\\\ud83d\n"\x00\x7f\u2028', "\ud83d\ude00", "\\\udcff"]
    for value in [*texts, *({each: [each, 1.5, None]} for each in texts), None, b"bytes"]:
        written, expected = ours.to_payload(value), usual.to_payload(value)
        assert written.metadata == expected.metadata
        written.data.decode("utf-8")
        decoded = usual.from_payload(expected)
        assert decoded == usual.from_payload(written) == ours.from_payload(written) == ours.from_payload(expected)
    assert ours.to_payload(["é", "\ud83d"]).data == b'["\xc3\xa9","\\ud83d"]'


async def test_a_result_is_capped_before_it_is_stored(folder, enter):
    """With a folder, too. Then the error does not ask for one."""
    enter(replaced(payloads, "LARGEST_STORED_BYTES", 1_500_000))
    url = await namespace()
    async with working(url, [large]):
        outcome, _ = await decided(url, "x" * 1_000_000)
    assert outcome.value[0] == "error"
    assert VARIABLE not in outcome.value[1]
    assert max(each.stat().st_size for each in files(folder)) < 1_500_000


async def stored(driver: PayloadFolder, *contents: bytes) -> list[StorageDriverClaim]:
    return await driver.store(None, [Payload(data=each) for each in contents])


async def retrieved(driver: PayloadFolder, *claims: StorageDriverClaim) -> list[bytes]:
    return [each.data for each in await driver.retrieve(StorageDriverRetrieveContext(), claims)]


async def test_a_file_that_is_missing_or_changed_is_named(folder):
    """Of many files, in order; and a claim cannot name a file elsewhere."""
    driver = PayloadFolder(folder)
    claims = await stored(driver, b"one", b"two", b"one")
    assert await retrieved(driver, *claims) == [b"one", b"two", b"one"]
    assert len(files(folder)) == 2
    first = next(each for each in files(folder) if each.name == claims[0].claim_data["sha256"])
    first.write_bytes(b"other")
    with pytest.raises(PayloadMissing, match=str(first)):
        await retrieved(driver, claims[0])
    first.unlink()
    with pytest.raises(PayloadMissing, match=str(first)):
        await retrieved(driver, claims[0])
    with pytest.raises(PayloadMissing):
        await retrieved(driver, StorageDriverClaim({"sha256": "../../etc/passwd"}))
    assert isinstance(PayloadMissing("text"), ServerError)
    assert PayloadMissing("text").type == NOT_HERE  # a body has not begun


async def test_a_file_that_is_stored_again_is_young(folder):
    """A clean-up by age keeps it; a broken one is written again."""
    driver = PayloadFolder(folder)
    await stored(driver, b"one")
    (file,) = files(folder)
    os.utime(file, (1, 1))
    await stored(driver, b"one")
    assert file.stat().st_mtime > 1
    file.write_bytes(b"")
    claims = await stored(driver, b"one")
    assert await retrieved(driver, *claims) == [b"one"]


async def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(folder):
    """While a payload is stored: here it is gone."""
    driver = PayloadFolder(folder)
    folder.rmdir()
    with pytest.raises(ServerError, match=str(folder)):
        await stored(driver, b"one")
    assert not folder.exists()


WRITES = """
import os, sys, anyio
from pathlib import Path
from temporalio.api.common.v1 import Payload
from supervisor.temporal.payloads import PayloadFolder

async def main():
    driver = PayloadFolder(Path(sys.argv[1]))
    while True:
        (claim,) = await driver.store(None, [Payload(data=os.urandom(300_000))])
        print(claim.claim_data["sha256"], flush=True)

anyio.run(main)
"""


@pytest.mark.soak
async def test_a_process_that_is_killed_leaves_no_broken_file(folder):
    """SIGKILL at any instant: each file with a digest as its name is whole, and those that were told of are there."""
    told: list[str] = []
    for _ in range(10):
        process = subprocess.Popen([sys.executable, "-c", WRITES, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        told += [process.stdout.readline().strip() for _ in range(3)]
        await anyio.sleep(random.random() / 50)
        process.kill()
        told += process.communicate()[0].split()
    found = {each.name: each for each in files(folder) if not each.name.startswith(".writing-")}
    assert set(told) - {""} <= set(found)
    assert all(sha256(path.read_bytes()).hexdigest() == digest for digest, path in found.items())
