"""Pages for people's browsers. Routes are plain Starlette routes; whoever is asked for, `visitor` tells.

A page is served with a content security policy of its own (header "content-security-policy"); everything else on this
server has one that allows nothing.
"""

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute

if TYPE_CHECKING:
    from supervisor.channels.web.site import Site


def routes(site: "Site") -> list[BaseRoute]:
    return []
