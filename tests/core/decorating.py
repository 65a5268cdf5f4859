"""A decorator in another module, which does not know the names in the annotations of a decorated function."""

import functools


def loudly(fn):
    @functools.wraps(fn)
    async def wrapped(*args, **kwargs):
        return await fn(*args, **kwargs)

    return wrapped
