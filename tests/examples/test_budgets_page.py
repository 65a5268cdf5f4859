"""The page about budgets is done as it is written there, in one folder."""

import json
import os
import re
import shlex
import subprocess
import sys

from processes import EXAMPLES

PAGE = EXAMPLES.parent / "docs/how-to/budgets.md"
BLOCK = re.compile(r"^<!-- test: (\w+) ?([^>]*?) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_a_run_waits_at_its_budget_and_goes_on_when_a_person_raises_it(tmp_path):
    def supervisor(*words: str) -> str:
        env = {**os.environ, "SUPERVISOR_STORE": str(tmp_path / "state.db")}
        done = subprocess.run(
            [sys.executable, "-m", "supervisor", *words],
            cwd=tmp_path,
            env=env,
            stdin=-3,
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    printed = []
    for how, name, text in BLOCK.findall(PAGE.read_text()):
        if how == "save":
            (tmp_path / name).write_text(text)
            continue
        for command in re.findall(r"^\$ supervisor (.*)$", text, re.MULTILINE):
            words = shlex.split(command)
            if "ID" in words:
                (asked,) = json.loads(supervisor("approvals", "--json"))
                words[words.index("ID")] = asked["id"]
            printed.append(supervisor(*words))
    started, usage, approvals, approved, resumed, budget = printed
    assert started == ""
    assert "gpt-5" in usage
    assert "3 of 3 requests" in approvals
    assert approved.startswith("approved")
    assert resumed.strip() == "8"
    assert "at least 10.00 USD, 40 requests" in budget
    report = json.loads(supervisor("usage", "tides", "--json"))
    assert report["total"]["requests"] == 8
