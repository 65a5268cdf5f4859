"""A scripted model: an OpenAI-compatible server on loopback, so that a test needs no key and gets the same replies.

It has no state. The last message of a person says which turns are played, and the number of tool results after it says
how far they have come. So an agent that was killed and asks again gets the same reply.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import msgspec

Turn = str | Sequence[tuple[str, Mapping[str, Any] | str]]
"""What the model says in one reply: text, or calls of tools: (name, arguments). Arguments that are text are sent as
they are, also if they are no JSON."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the model was asked."""

    path: str
    authorization: str
    body: dict[str, Any]


class ModelServer(msgspec.Struct, frozen=True, kw_only=True):
    """A scripted model that runs. `url`: the base URL for clients. `requests`: what it was asked, in order."""

    url: str
    requests: list[ModelRequest]


@contextmanager
def scripted_model(
    script: Mapping[str, Sequence[Turn]] | Callable[[str], Sequence[Turn]],
) -> Iterator[ModelServer]:
    """Serve a model until the block is left. Use it in real time: a virtual clock does not wait for a server.

    `script`: for each message of a person, the turns that follow it; a table, or a function. A request that the script
    cannot answer gets status 400 with the reason.
    """
    requests: list[ModelRequest] = []

    class Model(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            authorization = self.headers.get("Authorization", "")
            requests.append(ModelRequest(path=self.path, authorization=authorization, body=body))
            try:
                status, reply = 200, _reply(body, script if callable(script) else script.__getitem__)
            except (LookupError, ValueError) as error:
                message = f"the script of this model has no reply: {type(error).__name__}: {error}"
                status, reply = 400, {"error": {"message": message, "type": "invalid_request_error"}}
            sent = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # its name in the base class
            """Do nothing: a test reads `requests`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield ModelServer(url=f"http://127.0.0.1:{server.server_port}/v1", requests=requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _reply(body: dict[str, Any], turns_after: Callable[[str], Sequence[Turn]]) -> dict[str, Any]:
    if body.get("stream"):
        raise ValueError("it does not stream: ask without `stream`")
    roles = [message["role"] for message in body["messages"]]
    said = len(roles) - 1 - roles[::-1].index("user")
    done = roles[said:].count("tool")
    message = _message(turns_after(_text(body["messages"][said]["content"])), done)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
    model = body.get("model", "scripted")
    return {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}


def _message(turns: Sequence[Turn], done: int) -> dict[str, Any]:
    """Return the turn that follows so many results."""
    for turn in turns:
        if isinstance(turn, str):
            return {"role": "assistant", "content": turn}
        if done == 0:
            calls = [
                {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": _as_text(given)}}
                for number, (name, given) in enumerate(turn)
            ]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        done -= len(turn)
    raise LookupError("its turns are over: end them with a text")


def _as_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _text(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
