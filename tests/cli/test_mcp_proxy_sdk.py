"""`supervisor mcp --before`, between a client and a server that are written with the official package."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from proxied import McpClient, texts
from test_mcp_proxy import People

SERVER = str(Path(__file__).with_name("sdk_mcp_server.py"))
SECRET = "Bearer of-the-server"


@pytest.fixture
def people(supervisor):
    return People(supervisor)


@pytest.fixture
def address(supervisor):
    """Serve over HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    supervisor.started.append(process)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return f"http://127.0.0.1:{port}/mcp"
        except ConnectionRefusedError:
            time.sleep(0.02)


def proxy(supervisor, backend, server):
    serve = ["-m", "supervisor", "mcp", "--before", "--name", "sums", "--trust-hints", "--backend", backend, *server]
    return StdioServerParameters(command=sys.executable, args=serve, env=supervisor.env, cwd=supervisor.folder)


async def test_a_real_client_works_with_a_real_server_as_without_us(people, request, anyio_backend):
    """Structured output that the client checks, images, progress, resources, prompts: each transport on one backend,
    since these programs take seconds to start."""
    is_process = anyio_backend == "asyncio"
    server = ["--", sys.executable, SERVER] if is_process else [request.getfixturevalue("address")]
    for tool, pattern in (("add", '{"a":1,"b":2}'), ("draw", "{}")):
        assert people.supervisor("rules", "allow", f"sums.{tool}", pattern).code == 0
    progress = []

    async def told(now, total, message):
        progress.append((now, total, message))

    with anyio.fail_after(60):
        async with Client(proxy(people.supervisor, anyio_backend, server)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"add", "draw", "paint", "who"}
            added = await client.call_tool("add", {"a": 1, "b": 2}, progress_callback=told)
            assert (added.structured_content, progress) == ({"total": 3}, [(1, 2, "half of it")])
            drawn = await client.call_tool("draw", {})
            assert [block.type for block in drawn.content] == ["text", "image"]
            assert (await client.read_resource("notes://all")).contents[0].text == "a note"
            assert "Ana" in (await client.get_prompt("greet", {"name": "Ana"})).messages[0].content.text


def test_a_server_at_an_address_gets_its_headers_and_asks_people(people, address):
    """The value of a header is in the environment, and neither on the command line nor in the journal."""
    people.supervisor.env["TOKEN_OF_SUMS"] = SECRET
    assert people.supervisor("rules", "allow", "sums.who", "{}").code == 0
    header = ["--header", "Authorization=TOKEN_OF_SUMS"]
    client = McpClient(people.supervisor, *header, server=[address], name="sums")
    assert texts(client.result(client.call("who", {}))) == [SECRET]
    called = client.call("paint", {})
    people.approve(people.pending()[0])
    while not (found := [each for each in people.supervisor("approvals", "--json").json if each["kind"] == "question"]):
        time.sleep(0.02)
    assert people.supervisor("answer", found[0]["id"], '{"colour": "red"}').code == 0
    assert texts(client.result(called)) == ["accept red"]
    assert SECRET not in Path(f"/proc/{people.server()}/cmdline").read_text()


def test_a_server_that_cannot_be_reached_is_an_error_of_the_request(people):
    """The proxy goes on: the server may come back."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    client = McpClient(people.supervisor, server=[nowhere])
    assert "cannot be reached" in client.hello["error"]["message"]
    called = client.call("add")
    people.approve(people.pending()[0])
    assert "cannot be reached" in client.answer(called)["error"]["message"]
    assert client.leave() == 0
