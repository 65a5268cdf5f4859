"""A decorator in a module of its own, which knows none of the names that a decorated function is annotated with."""

import functools


def loudly(fn):
    @functools.wraps(fn)
    async def wrapped(*args, **kwargs):
        return await fn(*args, **kwargs)

    return wrapped
