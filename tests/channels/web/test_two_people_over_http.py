"""A17: over HTTP a vote is 202 with what is missing, and every list says who has voted."""

import pytest
from sites import EVERYBODY, world

from supervisor import ApproverRule, People

pytestmark = pytest.mark.anyio
TWO = People([*EVERYBODY], [ApproverRule(approvers=("ana", "cleo"), agent="noting", quorum=2)])
APPROVE = {"decision": "approve"}


async def test_a_vote_is_202_and_the_last_one_200():
    """The page of the inbox says the same as the API."""
    async with world(people=TWO) as here, here.client("ana") as ana, here.client("cleo") as cleo:
        asked = await here.ask(agent="noting", requester="olga")
        first = await ana.post(f"/api/approvals/{asked.id}/decision", json=APPROVE)
        assert (first.status_code, first.json()["kind"], first.json()["missing"]) == (202, "counted", 1)
        (listed,) = (await cleo.get("/api/approvals")).json()["items"]
        assert [each["by"] for each in listed["votes"]] == ["ana"]
        batch = {"decisions": [{"approval": asked.id, **APPROVE}]}
        assert (await cleo.post("/api/decisions", json=batch)).json()["results"][0]["kind"] == "refused"
        last = await cleo.post(f"/api/approvals/{asked.id}/decision", json=APPROVE)
        assert (last.status_code, last.json()["kind"]) == (200, "accepted")
