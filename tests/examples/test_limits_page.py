"""The page about limits is done as it is written there, in one folder."""

import re
import subprocess
import sys

from processes import EXAMPLES

PAGE = EXAMPLES.parent / "docs/how-to/limits.md"
BLOCK = re.compile(r"^<!-- test: save (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_twelve_agents_wait_for_one_browser_and_all_end(tmp_path):
    """L1: what waits fails nothing."""
    for name, text in BLOCK.findall(PAGE.read_text()):
        (tmp_path / name).write_text(text)
    done = subprocess.run([sys.executable, "crowd_main.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"an answer to read page {number}" for number in range(12)]
