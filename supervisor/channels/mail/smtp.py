"""Sends one message by SMTP, with the standard library in a thread.

Rules
- The connection is encrypted and the server's certificate is verified before a password or a message is sent. If that
  cannot be, nothing is sent. Only a server on this machine may be spoken to without encryption, and without a password.
- No error contains the password.
- A server that takes no passwords is not tried again: only another configuration helps.
"""

import smtplib
import ssl
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
import msgspec

from supervisor.core.errors import SupervisorError
from supervisor.core.text.visible import visible
from supervisor.system.logs import FactLog

log = FactLog(__name__)

Security = Literal["starttls", "tls", "none"]

_PASSWORDS: Final = frozenset({"CRAM-MD5", "PLAIN", "LOGIN"})
"""Ways to sign in by a password that the standard library knows."""
AT_ONCE: Final = 2
"""The most connections at the same time."""


class EmailRefused(SupervisorError):
    """The mail server refused, or it cannot be trusted; the message was not sent."""


class SmtpServer(msgspec.Struct, kw_only=True):
    """A mail server. `security`: "starttls" encrypts after the greeting (port 587), "tls" from the start (port 465).
    `ca_file`: certificates to trust instead of the system's. `timeout`: seconds that one step of the conversation may
    take."""

    host: str
    port: int
    security: Security = "starttls"
    user: str | None = None
    password: str | None = None
    ca_file: str | None = None
    timeout: float = 10.0
    limiter: anyio.CapacityLimiter | None = None
    refusal: EmailRefused | None = None
    """Why no connection is tried any more; None if there is hope."""

    def __repr__(self) -> str:
        return f"<SMTP server {self.host}:{self.port}>"  # never a password

    async def send(self, message: EmailMessage, sender: str, recipients: list[str]) -> None:
        """Send a message. Raises EmailRefused; ConnectionRefusedError if it was not sent, and may be sent later;
        OSError if the server may or may not have taken it."""

        def send(client: smtplib.SMTP) -> None:
            refused = client.send_message(message, from_addr=sender, to_addrs=recipients)
            for recipient, (code, text) in refused.items():
                log.warning("recipient.refused", recipient=recipient, code=code, text=_text(text))

        await self._talk(send)

    async def check(self) -> None:
        """Connect and sign in. Raises as `send`."""
        await self._talk(lambda client: client.noop())

    async def _talk(self, act: Callable[[smtplib.SMTP], Any]) -> None:
        """Do something with a connection, in a thread. `timeout` bounds each step: the thread cannot be ended."""
        if self.refusal is not None:
            raise EmailRefused(str(self.refusal))
        if self.limiter is None:
            self.limiter = anyio.CapacityLimiter(AT_ONCE)
        await anyio.to_thread.run_sync(self._talk_now, act, limiter=self.limiter)

    def _talk_now(self, act: Callable[[smtplib.SMTP], Any]) -> None:
        where = f"{self.host}:{self.port}"
        is_connected = False
        try:
            with self._connect() as client:
                is_connected = True
                act(client)
        except ssl.SSLCertVerificationError as error:
            raise EmailRefused(
                f"the certificate of {where} is not valid: {error.verify_message}; is the host's name right? ca_file "
                "names the certificates of an authority of your own"
            ) from None
        except ssl.SSLError as error:
            raise EmailRefused(
                f'{where} does not speak TLS as configured: {error.reason}; use security = "tls" for port 465, and '
                '"starttls" for port 587'
            ) from None
        except smtplib.SMTPNotSupportedError as error:
            raise EmailRefused(f"{where} cannot do what is needed, so nothing was sent: {error}") from None
        except smtplib.SMTPAuthenticationError as error:
            raise EmailRefused(f"{where} refuses the user or the password: {error.smtp_code}") from None
        except smtplib.SMTPRecipientsRefused as error:
            code, text = next(iter(error.recipients.values()))
            _refuse(where, code, text)
        except smtplib.SMTPResponseException as error:  # of the sender, of the message, or of the greeting
            _refuse(where, error.smtp_code, error.smtp_error)
        except (smtplib.SMTPException, OSError) as error:
            if is_connected:
                raise OSError(f"{where} broke off: {type(error).__name__}") from error
            raise ConnectionRefusedError(f"{where} cannot be reached: {type(error).__name__}: {error}") from None

    def _connect(self) -> smtplib.SMTP:
        """Return a connection that is encrypted and signed in."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.security == "tls":
            client: smtplib.SMTP = smtplib.SMTP_SSL(self.host, self.port, timeout=self.timeout, context=context)
        else:
            client = smtplib.SMTP(self.host, self.port, timeout=self.timeout)
        try:
            if self.security == "starttls":
                client.starttls(context=context)
            if self.user is not None and self.password is not None:
                self._refuse_without_passwords(client)
                client.login(self.user, self.password)
        except BaseException:
            client.close()
            raise
        return client

    def _refuse_without_passwords(self, client: smtplib.SMTP) -> None:
        """Raise EmailRefused if the server offers ways to sign in, and none of them takes a password."""
        client.ehlo_or_helo_if_needed()
        ways = client.esmtp_features.get("auth", "").upper().split()
        if ways and not _PASSWORDS & {*ways}:
            self.refusal = EmailRefused(
                f"{self.host}:{self.port} takes no password, only {', '.join(map(visible, ways))}, and this channel "
                "cannot sign in by OAuth: name a relay that takes one, and start again; it is not tried until then"
            )
            raise self.refusal


def _refuse(where: str, code: int, text: bytes | str) -> None:
    """Raise the error of a refusal: a code of 400 to 499 says that the server may take it later."""
    if 400 <= code < 500:
        raise ConnectionRefusedError(f"{where} takes no message now: {code} {_text(text)}") from None
    raise EmailRefused(f"{where} refuses the message: {code} {_text(text)}") from None


def _text(text: bytes | str) -> str:
    return visible(text if isinstance(text, str) else text.decode("utf-8", "replace"))[:200]
