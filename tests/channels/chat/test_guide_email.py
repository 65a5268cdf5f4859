"""A person follows docs/how-to/email.md to the first mail: the guide's own table, and a daemon that serves it."""

import os
import re
import sys
import time
from pathlib import Path

import preloaded
import pytest
from mail_server import PASSWORD, receiving

GUIDE = (Path(__file__).parents[3] / "docs/how-to/email.md").read_text()
TABLE = re.search(r"```toml\n(.*?)```", GUIDE, re.DOTALL)[1]
AGENTS = """
from supervisor import Context, agent, tool

@tool
async def deploy(target: str) -> str:
    return f"deployed {target}"

@agent
async def deployer(ctx: Context, text: str) -> str:
    return (await ctx.call(deploy, text)).content
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Session.login_data:DeprecationWarning")
def test_the_guide_leads_to_the_first_mail(tmp_path):
    """The daemon signs in, and the mail's link leads to the page of the approval."""
    (tmp_path / "agents.py").write_text(AGENTS)
    log = tmp_path / "log"
    with receiving(tmp_path) as box:
        local = f'host = "127.0.0.1"\nport = {box.port}\nca_file = "ca.pem"'
        table = TABLE.replace('host = "mail.example.org"', local).replace("[server]", "[server]\nport = 0")
        (tmp_path / "supervisor.toml").write_text('store = "state.db"\n' + table)
        environment = os.environ | {"EMAIL_PASSWORD": PASSWORD}
        supervisor = [sys.executable, "-m", "supervisor"]
        with log.open("wb") as out:
            serve = [*supervisor, "serve", "--config", "supervisor.toml"]
            daemon = preloaded.Popen(serve, cwd=tmp_path, env=environment, stdout=out, stderr=out)
            start = [*supervisor, "run", "agents.py:deployer", "web-1", "--store", "state.db"]
            run = preloaded.Popen(start, cwd=tmp_path, stdin=-3, stdout=out, stderr=out)
        try:
            end = time.monotonic() + 60
            while not box.letters:
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.02)
            to, letter = box.letters[0]
        finally:
            for process in (run, daemon):
                process.terminate()
                process.wait(60)
    assert to == ["ana@example.org"]
    assert "https://supervisor.example.org/approvals/" in letter.get_content()
    assert PASSWORD not in log.read_text()
