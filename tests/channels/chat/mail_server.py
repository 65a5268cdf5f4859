"""An SMTP server of aiosmtpd, with a certificate of an authority of our own; it keeps the messages that it takes."""

import asyncio
import socket
import ssl
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.policy import default
from ipaddress import ip_address

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

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
def receiving(folder, security="starttls", port=0):
    """Serve a mailbox on loopback."""
    box = Mailbox()
    certificate, box.ca_file = make_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    how = {"authenticator": box.authenticate, "auth_require_tls": False}
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


def make_certificate(folder):
    """Make a certificate for 127.0.0.1 of a new authority. Return its path, and the path of the authority's."""
    root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _sign("authority", root.public_key(), "authority", root, is_authority=True)
    server = _sign("127.0.0.1", key.public_key(), "authority", root, is_authority=False)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem, ca_file = folder / "server.pem", folder / "ca.pem"
    pem.write_bytes(server.public_bytes(serialization.Encoding.PEM) + private)
    ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    return pem, str(ca_file)


def _sign(name, public, issuer, key, *, is_authority):
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(name))]), critical=False)
    return made.sign(key, hashes.SHA256())
