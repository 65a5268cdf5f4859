"""The contract of the HTTP API, as far as OpenAPI does not define it."""

import json

import anyio
import pytest
from sites import person, world
from watching import next_of

from supervisor import Approve, Deny, People
from supervisor.core.approvals.people import ApproverRule

pytestmark = pytest.mark.anyio
NOTE = {"agent": "noting", "input": {"bread": "/dev/null"}}


async def test_starting_is_idempotent_by_its_session():
    """201, then 200 for the same again; another input or agent under the id is a conflict, an unknown agent a 422."""
    async with world() as here, here.client("olga") as client:
        body = {**NOTE, "session": "mine"}
        answers = [await client.post("/api/sessions", json=body) for _ in range(2)]
        assert [(each.status_code, each.json()) for each in answers] == [
            (201, {"id": "mine", "run": 1}),
            (200, {"id": "mine", "run": 1}),
        ]
        for changed, status in [({"input": {}}, 409), ({"agent": "chief"}, 409), ({"agent": "nobody"}, 422)]:
            assert (await client.post("/api/sessions", json={**body, **changed})).status_code == status
        view = (await client.get("/api/sessions/mine")).json()
        assert view.keys() >= {"id", "agent", "parent", "root", "status", "outcome", "pending_approvals"}
        assert (await client.get("/api/approvals")).json().keys() == {"items", "next", "cursor"}


async def test_of_several_starts_at_once_one_has_made_the_session():
    """Also while they gather during a running commit: one 201, and 200 for the others."""
    async with world() as here, here.client("olga") as client:
        answers = []

        async def start(session):
            answers.append(
                (session, (await client.post("/api/sessions", json={**NOTE, "session": session})).status_code)
            )

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(start, f"other{number}")
                tasks.start_soon(start, "mine")
        assert sorted(status for session, status in answers if session == "mine") == [200] * 19 + [201]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"\xff", 400),
        (b"", 400),
        (b"[]", 422),
        (b"{}", 422),
        (b'{"agent": 1}', 422),
        (b'{"agent": 1', 400),
        (b"[" * 10**5, 400),
    ],
)
async def test_invalid_json_and_a_wrong_type_have_different_statuses(body, status):
    """400 and 422, as problem details."""
    async with world() as here, here.client("olga") as client:
        answer = await client.post("/api/sessions", content=body)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
        assert answer.json().keys() >= {"type", "title", "status", "detail"}


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (Approve(by="ana"), {"decision": "approve"}, 200),
        (Approve(by="ana"), {"decision": "deny"}, 409),
        (Deny(by="ana"), {"decision": "deny", "reason": "another"}, 200),
        (Deny(by="ana"), {"decision": "approve"}, 409),
        (None, {"decision": "approve"}, 410),
        (Approve(by="ana"), {"decision": "maybe"}, 422),
        (Approve(by="ana"), {"decision": "approve", "reason": "why"}, 422),
    ],
)
async def test_the_first_decision_wins_and_the_second_is_told_who_made_it(first, second, status):
    """A3: 200, 409, 410; and 404 for an unknown approval."""
    async with world() as here, here.client("olga") as client:
        asked = await here.ask()
        if first is None:
            await here.supervisor.cancel(asked.session, by="olga")
        else:
            await here.supervisor.decide(asked.id, first)
        answer = await client.post(f"/api/approvals/{asked.id}/decision", json=second)
        assert answer.status_code == status
        if status == 409:
            assert answer.json()["result"]["by"] == "ana"
        assert (await client.post("/api/approvals/none/decision", json={"decision": "deny"})).status_code == 404


async def test_with_several_pending_a_session_is_approved_by_id_only():
    """422 names them; nothing ever decides whatever waits (A2)."""
    async with world() as here, here.client("olga") as client:
        answer = await client.post("/api/sessions", json={"agent": "asking_many", "input": 2, "session": "two"})
        while len(await here.supervisor.find_approvals()) < 2:
            await anyio.sleep(0.01)
        answer = await client.post("/api/sessions/two/approve")
        assert (answer.status_code, len(answer.json()["pending"])) == (422, 2)
        chosen = answer.json()["pending"][1]
        other = await here.ask()
        answer = await client.post("/api/sessions/two/approve", json={"approval": other.id})
        assert answer.status_code == 404
        assert (await client.post("/api/sessions/two/approve", json={"approval": chosen})).status_code == 200
        assert (await here.supervisor.get_approval(chosen)).status == "approved"
        assert (await client.post("/api/sessions/none/approve")).status_code == 404


async def test_chat_words_need_an_approver_and_everything_else_an_operator():
    """A12 in the API's messages; an approver's chat does not reach the agent."""
    async with world() as here, here.client("ana") as ana, here.client("olga") as olga:
        asked = await here.ask()
        path = f"/api/sessions/{asked.session}/messages"
        assert (await ana.post(path, json={"text": "do NOT run that"})).status_code == 403
        heard = (await olga.post(path, json={"text": "do NOT run that"})).json()
        assert (heard["kind"], heard["sent"]["kind"]) == ("sent", "kept")
        assert [each["id"] for each in heard["sent"]["waiting_for"]] == [asked.id]
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"
        heard = (await ana.post(path, json={"text": f"no {asked.id}"})).json()
        assert (heard["kind"], heard["results"][0]["kind"]) == ("decided", "accepted")
        assert (await here.supervisor.get_approval(asked.id)).by == "ana"
        assert (await ana.post(path, json={"text": "yes"})).status_code == 403


@pytest.mark.parametrize("look", ["/api/sessions/{0.session}", "/api/approvals", "/api/approvals/{0.id}", "/", None])
async def test_without_an_id_only_what_was_shown_to_its_sender_is_decided(look):
    """A12: by a document or a page that this person asked for; otherwise the answer says what to name."""
    async with world() as here, here.client("ana") as ana, here.client("cleo") as cleo:
        asked = await here.ask()
        path = f"/api/sessions/{asked.session}"
        await cleo.get(path)
        assert (await ana.post(f"{path}/approve")).status_code == 422
        if look is None:
            heard = (await ana.post(f"{path}/messages", json={"text": "approve all"})).json()
            assert (heard["kind"], [each["id"] for each in heard["approvals"]]) == ("listed", [asked.id])
        else:
            assert (await ana.get(look.format(asked))).status_code == 200
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"
        assert (await ana.post(f"{path}/approve")).status_code == 200


async def test_a_client_has_shown_only_what_the_server_gave_to_its_person():
    """A12: an id alone says nothing. The answer that lists the approval gives it."""
    async with world() as here, here.client("ana") as client:
        asked = await here.ask()
        path = f"/api/sessions/{asked.session}/messages"
        for kind in ("listed", "decided"):
            assert (await client.post(path, json={"text": "yes", "shown": [asked.id]})).json()["kind"] == kind


async def test_approve_all_for_the_session_by_an_approver_reports_both_results():
    """A12: an approver may not grant here what is reserved elsewhere; the answer says that, and that the call was
    decided."""
    reserved = [ApproverRule(approvers=("olga",), agent="another")]
    async with (
        world(People([person("olga", "operator"), person("ana", "approver")], reserved)) as here,
        here.client("ana") as ana,
    ):
        asked = await here.ask()
        await ana.get(f"/api/sessions/{asked.session}")
        said = await ana.post(f"/api/sessions/{asked.session}/messages", json={"text": "approve all for session"})
        assert (said.status_code, said.json()["may_not_allow"], said.json()["rules"]) == (200, True, [])
        assert (await here.supervisor.get_approval(asked.id)).status == "approved"


async def test_a_question_is_answered_and_edited_arguments_are_checked():
    """An answer has a value that fits; arguments replace all of the call's (A8)."""
    async with world() as here, here.client("ana") as client:
        run = await here.supervisor.start(here.supervisor.agents["wondering"], ["tea", "coffee"])
        question = await next_of(run.watch_approvals())
        path = f"/api/approvals/{question.id}/decision"
        for body, status in [
            ({"decision": "answer"}, 422),
            ({"decision": "answer", "value": "milk"}, 422),
            ({"decision": "approve"}, 422),
            ({"decision": "answer", "value": "tea"}, 200),
        ]:
            assert (await client.post(path, json=body)).status_code == status
        asked = await here.ask()
        path = f"/api/approvals/{asked.id}/decision"
        for arguments, status in [({"text": "x"}, 422), ({"text": "x", "file": "/dev/null", "z": 1}, 422)]:
            body = {"decision": "approve", "arguments": arguments}
            assert (await client.post(path, json=body)).status_code == status
        body = {"decision": "approve", "arguments": {"text": "milk", "file": "/dev/null"}}
        assert (await client.post(path, json=body)).status_code == 200
        assert (await (await here.supervisor.get_run(asked.session)).outcome()).value == "noted milk"


async def test_pages_hold_everything_once():
    """`next` leads from page to page; filters leave out what is not meant."""
    async with world() as here, here.client("ana") as client:
        for number in range(5):
            await here.ask(text=f"{number}")
        await here.supervisor.start(here.supervisor.agents["chatting"], "hello")

        async def all_of(path, **filters):
            found, more = [], {}
            while True:
                page = (await client.get(path, params={"limit": 2, **more, **filters})).json()
                assert len(page["items"]) <= 2
                found, more = found + [each["id"] for each in page["items"]], {"after": page["next"]}
                if page["next"] is None:
                    return found

        assert await all_of("/api/approvals") == [each.id for each in await here.supervisor.find_approvals()]
        everything = [view.id for view in await here.supervisor.find_sessions()]
        assert await all_of("/api/sessions") == everything
        assert await all_of("/api/sessions", newest="true") == everything[::-1]
        assert await all_of("/api/sessions", agent="chatting") == everything[-1:]
        assert await all_of("/api/sessions", status="waiting_approval") == everything[:-1]
        journal = (await client.get(f"/api/sessions/{everything[0]}/journal", params={"limit": 2})).json()
        assert len(journal["items"]) == 2
        assert journal["next"].endswith(f".{journal['items'][-1]['position']}")
        assert (await client.get("/api/sessions", params={"limit": 0})).status_code == 422
        assert (await client.get("/api/sessions", params={"nonsense": 1})).status_code == 422


async def test_rules_are_listed_added_and_revoked():
    """A7: the list says where each rule comes from; a revoked rule covers nothing."""
    async with world() as here, here.client("olga") as client:
        added = await client.post("/api/rules", json={"kind": "allow", "tool": "note", "pattern": '{"text": "x"}'})
        assert (added.status_code, added.json()["by"]) == (201, "olga")
        assert (await client.get("/api/rules")).json()["items"] == [added.json()]
        revoked = await client.delete(f"/api/rules/{added.json()['id']}")
        assert (revoked.status_code, revoked.json()) == (200, added.json())
        assert (await client.get("/api/rules")).json()["items"] == []
        assert (await client.delete(f"/api/rules/{added.json()['id']}")).status_code == 404
        assert (await client.post("/api/rules", json={"kind": "allow", "tool": "a*"})).status_code == 422


async def test_an_allowance_is_added_and_given_over_http_and_its_page_says_what_is_left():
    """A19: an end that is none is refused, and goes with an approval alone; the rest is as for each rule."""
    until = "2100-01-01T00:00:00Z"
    async with world() as here, here.client("olga") as client:
        wanted = {"kind": "allow", "tool": "note", "pattern": '{"text": "x"}', "uses": 3, "until": until}
        added = await client.post("/api/rules", json=wanted)
        assert (added.status_code, added.json()["uses"], added.json()["until"]) == (201, 3, until)
        for wrong in ({"uses": 0}, {"uses": True}, {"until": "2100-01-01T00:00:00"}, {"kind": "deny"}):
            assert (await client.post("/api/rules", json={**wanted, **wrong})).status_code == 422
        asked = await here.ask()
        path = f"/api/approvals/{asked.id}/decision"
        for body in (
            {"decision": "deny", "uses": 1},
            {"decision": "approve", "uses": 0},
            {"decision": "approve", "minutes": 0},
        ):
            assert (await client.post(path, json=body)).status_code == 422
        made = await client.post(path, json={"decision": "approve", "uses": 2, "minutes": 15})
        assert made.status_code == 200
        found = (await client.get("/api/rules")).json()["items"][-1]
        assert (found["id"], found["uses"], found["used"], found["ended"]) == (made.json()["rule"], 2, 0, False)
        page = (await client.get("/rules", headers={"accept": "text/html"})).text
        assert ("3 of 3 calls left" in page, "2 of 2 calls left" in page) == (True, True)


async def test_numbers_for_prometheus_say_what_waits():
    """Gauges of the store, counters of this process."""
    async with world() as here, here.client("olga") as client:
        asked, said, _ = [await here.ask() for _ in range(3)]
        await client.post(f"/api/approvals/{asked.id}/decision", json={"decision": "deny"})
        await client.post(f"/api/sessions/{said.session}/messages", json={"text": f"no {said.id}"})
        text = (await client.get("/metrics")).text
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert values["supervisor_approvals_pending"] == "1"
        assert values['supervisor_decisions_total{result="accepted"}'] == "2"
        assert values['supervisor_http_requests_total{method="POST",status="200"}'] == "2"


async def test_a_path_knows_its_methods():
    """405 names them; what is not there is 404, as a problem."""
    async with world() as here, here.client("olga") as client:
        answer = await client.put("/api/sessions")
        assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD, POST")
        answer = await client.get("/api/nothing")
        assert (answer.status_code, json.loads(answer.text)["status"]) == (404, 404)


async def test_a_body_in_which_a_key_stands_twice_decides_nothing():
    """A8: it says two things, and a decoder would take the last."""
    async with world() as here, here.client("ana") as client:
        asked = await here.ask()
        path = f"/api/approvals/{asked.id}/decision"
        twice = b'{"decision":"approve","arguments":{"text":"a","text":"b","file":"/dev/null"}}'
        said = await client.post(path, content=twice, headers={"content-type": "application/json"})
        assert (said.status_code, (await here.supervisor.get_approval(asked.id)).status) == (400, "pending")
