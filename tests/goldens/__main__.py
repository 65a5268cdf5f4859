"""`python -m tests.goldens`: write the goldens that have changed. Read the diff before you commit it."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from all_goldens import KEPT, rewrite  # noqa: E402 # the path must be set first

changed = rewrite()
for name in changed:
    print(KEPT / name)
print(f"{len(changed)} changed" if changed else "nothing has changed", file=sys.stderr)
