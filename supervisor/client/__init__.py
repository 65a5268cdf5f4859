"""The second Supervisor: a client of a daemon's HTTP API. So a person decides from a laptop what a server asks.

    addresses    which servers a token may travel to       answers    what an answer means, and what it raises
    connection   requests: token, tries, who the server is  streams    event streams that go on after a break

httpx is imported when a server is opened: the extra `client` brings it.
"""
