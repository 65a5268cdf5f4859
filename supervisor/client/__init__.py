"""The second Supervisor: a client of a daemon's HTTP API. So a person decides from a laptop what a server asks.

    remote       the Supervisor: each method is one request      runs      runs and watches
    connection   requests: token, tries, who the server is       streams   event streams that go on after a break
    answers      what an answer means, and what it raises        documents JSON documents as values
    addresses    which servers a token may travel to

httpx is imported when a server is opened: the extra `client` brings it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from supervisor.client.addresses import read_address
from supervisor.core.errors import InvalidInput
from supervisor.seam.supervisor import Supervisor

__all__ = ["open_remote"]


@asynccontextmanager
async def open_remote(
    url: str, *, token: str | Callable[[], str], reconnect_timeout: float = 60.0, allow_http: bool = False
) -> AsyncIterator[Supervisor]:
    """Open the supervisor that a daemon serves, as the person whose token this is.

    `url`: https, or http to this machine (a loopback address); `allow_http`: http to other machines too, where the
    network between is trusted. No redirect is followed.
    `token`: the token, or what returns it, asked at each request.
    `reconnect_timeout`: seconds for which a lost server is waited for, once it has been reached.

    Raises InvalidInput for an address or token that cannot be used; ServerUnavailable if the server cannot be reached
    now; ServerMismatch if it is no supervisor of this version; NotAuthenticated if it does not know the token.
    """
    address = read_address(url, allow_http=allow_http)
    try:
        from supervisor.client.connection import Connection
        from supervisor.client.remote import RemoteSupervisor
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        raise InvalidInput("to talk to a server httpx is needed: pip install 'subagent-supervisor[client]'") from None
    connection = Connection(address, token, reconnect_timeout)
    try:
        await connection.greet()
        yield RemoteSupervisor(connection)
    finally:
        await connection.leave()
