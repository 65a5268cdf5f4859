"""The example of a policy in code: it decides what it is sure of, and a person decides the rest."""

import anyio
import pytest
from processes import EXAMPLES, running

from supervisor import Approve, open_supervisor


async def _decide_the_rest(store):
    """Decide the one approval that the policy leaves; returns who decided each."""
    async with open_supervisor(store, create=False) as supervisor:
        async with supervisor.watch_approvals() as watch:
            async for approval in watch:
                if approval.arguments["order"] == "A2":
                    await supervisor.decide(approval.id, Approve(by="ana"))
                    break
        with anyio.fail_after(60):
            run = await supervisor.get_run("claims")
            replies = await run.result()
        decided = await supervisor.find_approvals(pending=False)
    return replies, {approval.arguments["order"]: (approval.decision, approval.by) for approval in decided}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_policy_decides_small_and_huge_refunds_and_a_person_the_others(tmp_path, backend):
    """On trio the same program is run by another last line."""
    program = (EXAMPLES / "policy.py").read_text().replace("run(main)", f"run(main, backend={backend!r})")
    (tmp_path / "policy.py").write_text(program)
    with running(tmp_path, "policy.py") as process:
        assert process.stderr.readline()
        replies, decided = anyio.run(_decide_the_rest, tmp_path / "refunds.db", backend=backend)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out.strip()) == (0, str(replies)), err
    assert replies[:2] == ["A1: paid 20.00", "A2: paid 700.00"]
    assert "head office" in replies[2]
    policy = "refund policy"
    assert decided == {"A1": ("approve", policy), "A2": ("approve", "ana"), "A3": ("deny", policy)}
