"""The table [channels.email] of supervisor.toml, or another of `kind = "email"`."""

from collections.abc import Iterator
from typing import Final

from supervisor.channels.mail.channel import Email
from supervisor.channels.mail.letters import mail_address
from supervisor.channels.mail.smtp import Security, SmtpServer
from supervisor.channels.settings import ChannelSettings, ChannelSetup, Problem
from supervisor.core.approvals.channel_kinds import KINDS
from supervisor.core.errors import InvalidInput

(PASSWORD,) = KINDS["email"].secrets
PORTS: Final[dict[Security, int]] = {"starttls": 587, "tls": 465, "none": 25}
LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class EmailSettings(ChannelSettings, frozen=True, kw_only=True):
    """The mail server, the sender and the recipients of messages."""

    secrets = (PASSWORD,)

    host: str
    sender: str
    port: int | None = None
    security: Security = "starttls"
    user: str | None = None
    to: tuple[str, ...] = ()
    tells_ends: bool = True
    ca_file: str | None = None
    password_file: str | None = None

    def problems(self, setup: ChannelSetup) -> Iterator[Problem]:
        identities = [person.identities[setup.name] for person in setup.people if setup.name in person.identities]
        written = [("sender", self.sender), *(("to", each) for each in self.to), *(("", each) for each in identities)]
        for key, each in written:
            try:
                mail_address(each)
            except InvalidInput as error:
                yield key, str(error)
        if self.port is not None and not 0 < self.port < 65536:
            yield "port", f"a port is 1 to 65535, not {self.port}"
        if self.security == "none" and self.host not in LOCAL:
            yield "security", f"only a server on this machine may be without encryption, not {self.host}"
        if (self.user is None) == self.has_secret(PASSWORD, setup):
            yield "user", f"write a user and give a password ({PASSWORD.variable(setup.name)}), or neither"
        elif self.user is not None and self.security == "none":
            yield "user", "a password is not sent without encryption"
        if self.ca_file is not None and not setup.path(self.ca_file).is_file():
            yield "ca_file", f"{setup.path(self.ca_file)} is no file"

    def make(self, setup: ChannelSetup) -> Email:
        server = SmtpServer(
            host=self.host,
            port=self.port or PORTS[self.security],
            security=self.security,
            user=self.user,
            password=self.take_secret(PASSWORD, setup) or None,
            ca_file=None if self.ca_file is None else str(setup.path(self.ca_file)),
        )
        return Email(
            name=setup.name,
            server=server,
            sender=self.sender,
            people=setup.people,
            to=self.to,
            link=setup.link,
            tells_ends=self.tells_ends,
        )
