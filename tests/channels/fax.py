"""A channel as another author writes it: it uses only `supervisor` and `supervisor.channels.sdk`."""

import anyio

from supervisor.channels import Channel
from supervisor.channels.sdk import ChannelSettings, Secret

CODE = Secret(key="code", where="under the lid", form="[0-9]+")


class Fax(Channel):
    def __init__(self, name, number, code):
        self.name, self.number, self.code = name, number, code

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        return approval.id

    async def retire(self, approval, card): ...


class FaxSettings(ChannelSettings, frozen=True, kw_only=True):
    secrets = (CODE,)

    number: str
    code_file: str | None = None

    def problems(self, setup):
        if not self.number.isdigit():
            yield "number", "write digits only"

    def make(self, setup):
        return Fax(setup.name, self.number, self.take_secret(CODE, setup))


class NamelessSettings(ChannelSettings, frozen=True, kw_only=True):
    def make(self, setup):
        return Fax("fax", "1", "")


class Away:
    """Not a kind of channel."""
