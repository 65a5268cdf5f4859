"""Which addresses a client talks to. A token travels to an address, so an address that could leak it is refused.

    https://host[:port][/prefix]        always
    http://host[:port][/prefix]         to this machine (a loopback address, localhost); elsewhere with `allow_http`

Rules
- A user, a password, a query and a fragment are refused: a token belongs into no address, and addresses are logged.
- No error repeats the text that was given, since it may hold a password.
- The environment's proxies are used for https to other machines only. An http proxy could read the token, and a proxy
  cannot reach the client's own machine.
"""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from supervisor.core.errors import InvalidInput

WANTED: Final = "name a server as https://HOST[:PORT], or http://127.0.0.1:PORT on this machine"
_PLAIN: Final = re.compile(r"[\x21-\x7e]+")
_HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+", re.IGNORECASE)


class Address(NamedTuple):
    """`url`: scheme, host, port and prefix, without a slash at its end."""

    url: str
    uses_proxies: bool


def read_address(text: str, *, allow_http: bool = False) -> Address:
    """Return the address of a server. Raises InvalidInput, which says what to write instead."""
    if not _PLAIN.fullmatch(text):
        raise InvalidInput(f"the server's address is empty, or has a character in it that no address has; {WANTED}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise InvalidInput(f"the server's address has a host or port that cannot be; {WANTED}") from None
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
        raise InvalidInput(f"this is no server's address; {WANTED}")
    if "@" in parts.netloc or re.search(r"[?#\\]", text):
        raise InvalidInput(
            "the server's address has a user, a query or a fragment in it: give the token in a file or in "
            f"$SUPERVISOR_TOKEN; {WANTED}"
        )
    is_here = is_loopback(host)
    if parts.scheme == "http" and not is_here and not allow_http:
        raise InvalidInput(
            f"http to {host} would show the token to everyone on the way: use https, or allow it (--allow-http, "
            "allow_http=True) in a network that you trust"
        )
    named = f"[{host}]" if ":" in host else host
    where = named if port is None else f"{named}:{port}"
    return Address(f"{parts.scheme}://{where}{parts.path.rstrip('/')}", parts.scheme == "https" and not is_here)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
