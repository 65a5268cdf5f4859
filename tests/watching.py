"""What the tests of every part share about watches."""


async def next_of(watch):
    """Open a watch, and return the first that it gives."""
    async with watch as opened:
        return await anext(opened)
