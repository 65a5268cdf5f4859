"""The HTTP server of the fakes of chat platforms: on loopback, with a thread for each connection."""

import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit


class Asked(NamedTuple):
    """A request. The names of `headers` may be written in any case."""

    method: str
    url: SplitResult
    headers: dict[str, str]
    body: bytes


@contextmanager
def served(answer, *, keeps_connections=False):
    """Serve on loopback, and give the address. `answer` takes each request, and returns status, body and headers."""

    class Request(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if keeps_connections else "HTTP/1.0"

        def do_any(self):
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # the process that sent it was killed in between
                self.close_connection = True
                return
            status, raw, headers = answer(Asked(self.command, urlsplit(self.path), self.headers, body))
            with suppress(ConnectionError):  # the process that asked was killed in between
                self.send_response(status)
                for name, value in {"content-type": "application/json", "content-length": len(raw), **headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(raw)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_any  # noqa: N815 # the server's names

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
