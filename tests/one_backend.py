"""Which tests CI runs on one backend.

Theory: what the backends do differently is in the runtime, the store and the processes. There a rule is proven on both:
of the cases that a test has on both backends, half run on asyncio and the others on trio, and a test with one such case
runs it on both. A rule of a surface, which meets the event loop by anyio's own functions, holds on both for the same
reason, so CI proves half of these rules on asyncio and the others on trio. Elsewhere than in CI all run on both.

Chance decides, by `TESTS_SEED`: an id and a seed always give the same backend.
"""

import os
import re
from collections import defaultdict
from collections.abc import Collection
from random import Random

SURFACES = ("tests/agents/", "tests/channels/", "tests/cli/", "tests/client/", "tests/crossing/", "tests/examples/")
BACKEND = re.compile(r"(?<=[\[-])(asyncio|trio)(?=[\]-])")


def left_out(tests: Collection[str], seed: str = os.environ.get("TESTS_SEED", "")) -> set[str]:
    """Return the ids of the tests that are proven by what runs on the other backend."""
    cases = defaultdict(set)
    for test in tests:
        one, two = (BACKEND.sub(backend, test, count=1) for backend in ("asyncio", "trio"))
        if one != two and {one, two} <= tests:
            cases[test.partition("[")[0]].add((one, two))
    found = set()
    for rule, pairs in cases.items():
        chance = Random(rule + seed)
        turn = chance.randrange(2)
        if rule.startswith(SURFACES):
            found |= {chance.choice(pair) for pair in sorted(pairs)}
        elif len(pairs) > 1:
            mixed = chance.sample(sorted(pairs), len(pairs))
            found |= {pair[(turn + at) % 2] for at, pair in enumerate(mixed)}
    return found
