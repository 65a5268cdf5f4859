"""The example that decides over HTTP: a real daemon, and the program in a process of its own."""

import sys

import httpx
import preloaded
import pytest
from processes import EXAMPLES, serving, until


@pytest.mark.parametrize(("said", "result"), [("y", "posted Ten years of us"), ("", "not today")])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_decides_over_plain_http(tmp_path, backend, said, result):
    example, token = str(EXAMPLES / "approve_over_http.py"), tmp_path / "token"
    token.write_text("a-token-that-is-long-enough-for-tests\n")
    options = ["--token-file", "token", "--backend", backend, "--port", "0", "--store", "state.db"]
    headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
    command = ["-m", "supervisor", "serve", example, *options]
    with serving(tmp_path, *command) as url, httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        started = {"agent": "publish", "input": "Ten years of us", "session": "s"}
        http.post("/api/sessions", json=started).raise_for_status()
        until(lambda: http.get("/api/approvals").json()["items"])
        command = [sys.executable, example, url, "token"]
        deciding = preloaded.Popen(command, cwd=tmp_path, text=True, stdin=-1, stdout=-1, stderr=-1)
        out, err = deciding.communicate(f"{said}\n", timeout=60)
        assert "publish wants post {'title': 'Ten years of us'}" in out, err
        outcome = http.get("/api/sessions/s/runs/1", params={"wait": 30}).json()
    assert result in str(outcome)
