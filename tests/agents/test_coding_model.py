"""The scripted model: what it answers follows from the conversation alone."""

import http.client
import json
import threading
from contextlib import closing, contextmanager
from http.server import ThreadingHTTPServer

import pytest
from coding_model import Handler, next_step

PROMPT = 'please script: [["run", "make"], ["both", ["run", "a"], ["run", "b"]], ["say", "bye"]]'
RUN, BOTH, BYE, DONE = ["run", "make"], ["both", ["run", "a"], ["run", "b"]], ["say", "bye"], ["say", "done"]


@pytest.mark.parametrize(
    ("turns", "step"),
    [
        ([("user", "hello")], ["say", "ok"]),
        ([("user", PROMPT)], RUN),
        ([("user", PROMPT), ("result", "made")], BOTH),
        ([("user", PROMPT), ("result", "made"), ("result", "a"), ("result", "b")], BYE),
        ([("user", PROMPT), ("result", "refused by the user")], BOTH),
        ([("user", PROMPT), ("result", "[Tool execution was interrupted]"), ("user", "go on")], RUN),
        ([("user", PROMPT), ("result", "made"), ("user", 'script: [["run", "other"]]')], ["run", "other"]),
        ([("user", PROMPT), ("result", "aborted by user"), ("user", "approved: make this call again")], RUN),
        ([("user", PROMPT), ("result", "aborted by user"), ("user", "go on")], BOTH),
        ([("user", PROMPT), ("result", "aborted"), ("user", "approved: make this call again")], RUN),
        ([("user", PROMPT), ("result", "made"), ("user", "You were asked: " + PROMPT)], BOTH),
        ([("user", 'script: [["run", "x"]]'), ("result", "x")], DONE),
    ],
)
def test_the_position_is_the_number_of_results_since_the_last_script(turns, step):
    assert next_step(turns) == step


@contextmanager
def served():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with closing(http.client.HTTPConnection("127.0.0.1", server.server_port)) as connection:
            yield connection
        server.shutdown()


USER = {"role": "user", "content": PROMPT}
MODEL = "/v1beta/models/m"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "conversation", "tool"),
    [
        ("/v1/chat/completions", {"messages": [USER]}, {"function": {"name": "bash"}}),
        ("/v1/responses", {"input": [USER]}, {"name": "exec_command"}),
        ("/v1/messages", {"messages": [USER]}, {"name": "Bash"}),
        (MODEL, {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}, {"name": "run_shell_command"}),
    ],
)
def test_each_protocol_calls_the_tool_that_the_agent_offers(path, conversation, tool, stream):
    offered = [{"functionDeclarations": [tool]}] if path == MODEL else [tool]
    if path == MODEL:  # there it is the address that asks for a stream
        path += ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    body = {"model": "m", "stream": stream, "tools": offered, **conversation}
    with served() as connection:
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        assert answer.headers["Content-Type"] == ("text/event-stream" if stream else "application/json")
        text = answer.read().decode()
    assert tool.get("name", "bash") in text
    assert "make" in text
