"""A scripted model: an OpenAI-compatible server on loopback, without state. The last message of a person is the script.

A script is a list of turns, each a list of tool calls ([name, arguments]) or a final text; where the conversation is,
the number of tool results after that message says.
"""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class _Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"], body))
        roles = [message["role"] for message in body["messages"]]
        begun = len(roles) - 1 - roles[::-1].index("user")
        done = roles[begun:].count("tool")
        for turn in json.loads(body["messages"][begun]["content"]):
            if isinstance(turn, str) or done == 0:
                break
            done -= len(turn)
        message = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
        if not isinstance(turn, str):
            message["tool_calls"] = [
                {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for n, (name, arguments) in enumerate(turn)
            ]
        reply = json.dumps({"id": "1", "choices": [{"index": 0, "message": message}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args):
        """Nobody reads it."""


@contextmanager
def scripted_model():
    """Serve it; gives its base URL and what it was asked: (path, authorization, body)."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.daemon_threads = True
    server.asked = []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
