"""Which tests CI runs on one backend: those of surfaces, which meet the event loop by anyio's own functions.

Theory: what the backends do differently is in the runtime, the store and the processes, whose tests run on both. A rule
of a surface holds on both for the same reason, so CI proves half of these rules on asyncio and the others on trio.
Elsewhere than in CI all run on both.
"""

import re
from collections.abc import Collection
from random import Random

SURFACES = ("tests/agents/", "tests/channels/", "tests/cli/", "tests/client/", "tests/crossing/", "tests/examples/")
BACKEND = re.compile(r"(?<=[\[-])(asyncio|trio)(?=[\]-])")
OTHER = {"asyncio": "trio", "trio": "asyncio"}


def left_out(tests: Collection[str]) -> set[str]:
    """Return the ids of the tests whose rule is proven on the other backend, which the rest of the id decides."""
    return {
        test
        for test in tests
        if test.startswith(SURFACES)
        and (found := BACKEND.search(test))
        and BACKEND.sub(OTHER[found[0]], test, count=1) in tests
        and found[0] == Random(BACKEND.sub("", test, count=1)).choice(("asyncio", "trio"))
    }
