"""The channel of docs/how-to/write-a-channel.md, and a fake of its message board: real HTTP, signed presses."""

import hashlib
import hmac
import importlib.util
import itertools
import re
import threading
import time
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from supervisor.testing import CardSeen, ChannelBench

GUIDE = Path(__file__).parents[2] / "docs/how-to/write-a-channel.md"
TOKEN = "a-token"
STATUS = {"429": 429, "500": 500, "revoked": 401}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


@cache
def board_module():
    """Return the guide's first program as a module."""
    spec = importlib.util.spec_from_loader("board", loader=None)
    module = importlib.util.module_from_spec(spec)
    exec(compile(blocks("python")[0], str(GUIDE), "exec"), module.__dict__)
    return module


class FakeBoard:
    def __init__(self):
        self.messages, self.numbers, self.fails, self.url = {}, itertools.count(1), None, ""

    def answer(self, method, path, body):
        """Return the status and the document of an answer."""
        if self.fails in STATUS:
            return STATUS[self.fails], {}
        if self.fails == "slow":
            time.sleep(1.0)
        if method == "GET":
            key = path.partition("key=")[2]
            return 200, [{"id": id_, **each} for id_, each in self.messages.items() if each["key"] == key]
        id_ = path.rpartition("/")[2] if method == "PUT" else str(next(self.numbers))
        self.messages[id_] = msgspec.json.decode(body)
        return (502, {}) if self.fails == "lost" else (200, {"id": id_})


@contextmanager
def serving(board):
    class Handler(BaseHTTPRequestHandler):
        def take(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.headers["authorization"] != f"Bearer {TOKEN}":
                status, document = 401, {}
            else:
                status, document = board.answer(self.command, self.path, body)
            sent = msgspec.json.encode(document)
            try:
                self.send_response(status)
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)
            except OSError:
                pass  # it was given up

        do_GET = do_POST = do_PUT = take  # noqa: N815 # as http.server calls them

        def log_message(self, *about): ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    board.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield board
    finally:
        server.shutdown()
        server.server_close()


class BoardBench(ChannelBench):
    name = "board"
    cannot = dict.fromkeys(("writing",), "it has no conversations")

    def __init__(self, board):
        self.board = board

    def make(self, people):
        url = "http://127.0.0.1:9" if self.board.fails == "refused" else self.board.url
        return board_module().Board("board", url, TOKEN, people, "https://x")

    def cards(self):
        return [
            CardSeen(
                card=id_, approval=each["key"], text=each["text"], codes=tuple(code for code, _ in each["buttons"])
            )
            for id_, each in self.board.messages.items()
        ]

    async def press(self, channel, seen, code, identity, text="", key=TOKEN):
        body = msgspec.json.encode({"key": seen.approval, "code": code, "user": identity, "text": text})
        signature = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
        return await channel.webhooks()[0].receive({"x-signature": signature}, body)

    async def forge(self, channel, seen, code, identity):
        assert (await self.press(channel, seen, code, identity, key="guessed")).status == 401

    def fail(self, how):
        self.board.fails = how
