"""The example of a FastAPI application, with a real server in a process of its own."""

import re

import httpx
import pytest
from processes import EXAMPLES, serving, until

PAGE = EXAMPLES.parent / "docs/how-to/embed-in-fastapi.md"


def test_the_page_shows_what_the_example_does():
    """Each program of the page is a part of it, and each command is one of its first lines."""
    page, example = PAGE.read_text(), (EXAMPLES / "fastapi_app.py").read_text()
    programs = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    commands = re.findall(r"^\$ ((?:hypercorn|curl) [^#\n]*?) *(?:#.*)?$", page, re.MULTILINE)
    assert (len(programs), len(commands)) == (2, 3)
    assert [shown for shown in (*programs, *commands) if shown not in example] == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_fastapi_application_goes_on_after_a_kill(tmp_path, backend):
    """A report is started twice and written once; a person approves it after a SIGKILL."""
    app = f"{EXAMPLES / 'fastapi_app.py'}:app"
    command = ["-m", "hypercorn", "--workers", "0", "--worker-class", backend, "--bind", "127.0.0.1:0", app]
    with serving(tmp_path, *command) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert http.get("/reports/may").status_code == 404
        for _ in range(2):
            assert http.put("/reports/may").json() == {"session": "report-may"}
        assert http.put("/reports/May 2026").json()["session"].startswith("report-may-2026--")
        nobody = http.post("/approvals/unknown/approve", headers={"X-User": ""})
        assert (nobody.status_code, "must not be empty" in nobody.json()["detail"]) == (422, True)
        waiting = until(lambda: len(found := http.get("/approvals").json()) == 2 and found)
    with serving(tmp_path, *command) as url, httpx.Client(base_url=url, timeout=60) as http:
        assert [one["id"] for one in http.get("/approvals").json()] == [one["id"] for one in waiting]
        (may,) = (one["id"] for one in waiting if "May 2026" not in str(one["arguments"]))
        approve = f"/approvals/{may}/approve"
        decided = [http.post(approve, headers={"X-User": "ana"}).json()["result"] for _ in range(2)]
        outcome = until(lambda: http.get("/reports/may").json()["outcome"])
    assert decided == ["accepted", "already"]
    assert outcome["value"] == "mailed the report of may"
