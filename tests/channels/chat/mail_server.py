"""An SMTP server of aiosmtpd, with a certificate of an authority of our own; it keeps the messages that it takes."""

import asyncio
import socket
import ssl
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from ipaddress import ip_address

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from certificates import Authority
from cryptography import x509

USER, PASSWORD = "supervisor", "a secret word"


class Mailbox:
    """`letters`: the messages, as (recipients, message). `refusals`: what the server answers instead of taking one."""

    def __init__(self):
        self.letters = []
        self.raw = []
        self.refusals = []
        self.users = []
        self.port = 0
        self.ca_file = ""
        self.delay = 0.0
        self.is_lost = False  # takes a message, and then fails

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 # aiosmtpd's name
        assert server.transport.get_extra_info("sslcontext") is not None
        if self.refusals:
            return self.refusals.pop(0)
        await asyncio.sleep(self.delay)
        self.raw.append(envelope.content)
        self.letters.append((envelope.rcpt_tos, message_from_bytes(envelope.content, policy=default)))
        return "451 lost" if self.is_lost else "250 OK"

    def authenticate(self, server, session, envelope, mechanism, data):
        self.users.append(data.login.decode())
        return AuthResult(success=(data.login, data.password) == (USER.encode(), PASSWORD.encode()), handled=False)


@contextmanager
def receiving(folder, security="starttls", port=0, kind=Mailbox, **options):
    """Serve a mailbox on loopback."""
    box = kind()
    Authority(folder).make("server", x509.IPAddress(ip_address("127.0.0.1")))
    box.ca_file = str(folder / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    how = {"authenticator": box.authenticate, "auth_require_tls": False, **options}
    if security == "starttls":
        controller = Controller(
            box, hostname="127.0.0.1", port=port or _free_port(), tls_context=context, require_starttls=True, **how
        )
    else:
        controller = Controller(box, hostname="127.0.0.1", port=port or _free_port(), ssl_context=context, **how)
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
