"""`supervisor mcp --before`: a client, a proxy and a server, each in a process of its own, and people decide."""

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from proxied import ADD, McpClient, texts
from test_permission_server import Sessions

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "mcp-proxy.md"
MARK = "subagent-supervisor/note"


class People(Sessions):
    """People, and the clients of a proxied server."""

    def client(self, *words, **options):
        return McpClient(self.supervisor, *words, **options)

    def executing(self):
        while not self.events("ToolCallStarted"):
            time.sleep(0.01)


@pytest.fixture
def people(supervisor):
    return People(supervisor)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_call_runs_when_a_person_approves_it_and_its_whole_result_passes(people, backend):
    """Text, images and structured content. The tool has the operator's name of the server, and never its own."""
    client = people.client("--backend", backend)
    called = client.call("add")
    (asked,) = people.pending()
    (found,) = people.supervisor("approvals", "--json").json
    assert (found["tool"], found["arguments"], client.made()) == ("files.add", ADD, [])
    people.approve(asked)
    result = client.result(called)
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert (result["structuredContent"], MARK in result.get("_meta", {})) == ({"added": "a"}, False)
    assert (client.leave(), client.made()) == (0, ["a"])


def test_a_denied_call_never_comes_to_the_server(people):
    client = people.client()
    called = client.call("add")
    people.deny(people.pending()[0], "not there")
    result = client.result(called)
    assert (result["isError"], "denied by ana: not there" in texts(result)[0]) == (True, True)
    assert client.server_heard("tools/call") == []


def test_an_edited_call_runs_as_edited_and_the_client_is_told(people):
    """An edit that does not fit the server's schema is refused."""
    client = people.client()
    client.ask("tools/list")
    called = client.call("add")
    (asked,) = people.pending()
    assert people.supervisor("approve", asked, "--edit", '{"text": 5}').code == 2
    people.approve(asked, "--edit", '{"text": "b"}')
    result = client.result(called)
    assert (client.made(), '"b"' in texts(result)[0], texts(result)[1]) == (["b"], True, "added b")


def test_rules_decide_by_the_operators_name(people):
    """So a server inherits nothing by calling itself like another one."""
    assert people.supervisor("rules", "allow", "files.add", '{"text":"a"}').code == 0
    assert people.supervisor("rules", "deny", "files.look").code == 0
    client = people.client()
    assert texts(client.result(client.call("add"))) == ["added a"]
    assert client.result(client.call("look", {}))["isError"]
    other = people.client(session="other", name="Mallory")
    other.call("add")
    people.pending(1)


def test_a_hint_that_a_tool_only_reads_counts_where_the_operator_says_so(people):
    trusting = people.client("--trust-hints")
    trusting.ask("tools/list")
    assert texts(trusting.result(trusting.call("look", {}))) == ["looked"]
    careful = people.client(session="careful")
    careful.ask("tools/list")
    careful.call("look", {})
    people.pending(1)


def test_an_error_of_a_tool_and_one_of_the_protocol_pass_as_they_are(people):
    for tool in ("fail", "break"):
        assert people.supervisor("rules", "allow", f"files.{tool}", "{}").code == 0
    client = people.client()
    assert client.result(client.call("fail", {})) == {
        "content": [{"type": "text", "text": "it failed"}],
        "isError": True,
    }
    assert client.answer(client.call("break", {}))["error"] == {"code": -32050, "message": "it broke", "data": [1]}


def test_everything_else_passes_in_both_directions(people):
    """Methods that the proxy does not know, their parameters, and requests of the server to the client."""
    assert people.supervisor("rules", "allow", "files.sample", "{}").code == 0
    client = people.client(sampling={})
    assert client.hello["result"]["serverInfo"]["name"] == "Mallory's"
    echo = client.ask("prompts/later", {"new": [1, {"x": None}]})["result"]["echo"]
    assert (echo["method"], echo["params"]) == ("prompts/later", {"new": [1, {"x": None}]})
    called = client.call("sample", {})
    asked = client.told("sampling/createMessage")
    client.tell(id=asked["id"], result={"role": "assistant"})
    assert json.loads(texts(client.result(called))[0])["result"] == {"role": "assistant"}
    refused = client.ask("server/discover")["error"]
    assert refused["code"] == -32601


def test_a_call_without_an_id_never_comes_to_the_server(people):
    client = people.client()
    client.tell(method="tools/call", params={"name": "add", "arguments": ADD})
    client.ask("ping")
    assert client.server_heard("tools/call") == []


def test_a_question_of_the_server_is_answered_by_a_person(people):
    """Whatever its client can do. A person declines, too."""
    form = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    client = people.client()
    for answered in (["answer", '{"n": 3}'], ["deny"]):
        called = client.call("ask", {"form": form})
        people.approve(people.pending()[0])
        while not (
            found := [each for each in people.supervisor("approvals", "--json").json if each["kind"] == "question"]
        ):
            time.sleep(0.01)
        assert "in its own words: Which one?" in found[0]["question"]
        assert people.supervisor(answered[0], found[0]["id"], *answered[1:]).code == 0
        told = json.loads(texts(client.result(called))[0])["result"]
        assert told == ({"action": "accept", "content": {"n": 3}} if answered[1:] else {"action": "decline"})


def test_progress_and_a_cancel_pass(people):
    """A cancel that is no timeout comes to the server, which gives no result. The next equal call hears that."""
    client = people.client()
    called = client.call("wait", progressToken="mine")
    people.approve(people.pending()[0])
    assert client.told("notifications/progress")["params"] == {"progressToken": "mine", "progress": 1}
    client.cancel(called, "the person pressed escape")
    again = client.call("wait")
    result = client.result(again)
    assert (result["isError"], "cancelled" in texts(result)[1], client.made()) == (True, True, [])
    (sent,) = client.server_heard("tools/call")
    (cancelled,) = client.server_heard("notifications/cancelled")
    assert cancelled["params"]["requestId"] == sent["id"] != called


def test_a_client_that_gives_up_leaves_its_approval_and_its_next_call_gets_the_decision(people):
    """Nothing runs while no client waits."""
    client = people.client()
    called = client.call("add")
    (asked,) = people.pending()
    client.cancel(called, "timed out after 60 s")
    client.ask("ping")
    people.approve(asked)
    assert client.made() == []
    result = client.result(client.call("add"))
    assert (texts(result), client.made(), len(people.events("ToolCallRequested"))) == (["added a"], ["a"], 1)


def test_an_equal_call_shares_a_running_one_only_if_its_client_has_left(people):
    """A timeout of the client is no cancel: the call goes on, once. What it gets is marked."""
    client = people.client()
    called = client.call("wait")
    people.approve(people.pending()[0])
    people.executing()
    client.call("wait")
    (second,) = people.pending()
    client.cancel(called, "Request timed out")
    shared = client.call("wait")
    (client.folder / "go").touch()
    result = client.result(shared)
    assert (texts(result)[1], MARK in result["_meta"], client.made()) == ("added a", True, ["a"])
    assert (people.pending(), client.server_heard("notifications/cancelled")) == ([second], [])


def test_a_result_that_no_client_got_goes_to_the_next_equal_call_once_and_is_marked(people):
    client = people.client()
    called = client.call("wait")
    people.approve(people.pending()[0])
    people.executing()
    client.cancel(called, "timeout")
    client.ask("ping")  # messages are heard in order: the call does not end before its cancel was heard
    (client.folder / "go").touch()
    while not people.events("ToolCallFinished"):
        time.sleep(0.01)
    result = client.result(client.call("wait"))
    assert (MARK in result["_meta"], client.made()) == (True, ["a"])
    client.call("wait")
    people.pending(1)


def test_a_proxy_that_is_killed_while_a_person_is_asked_loses_nothing(people):
    client = people.client()
    client.call("add")
    (asked,) = people.pending()
    os.kill(people.server(), signal.SIGKILL)
    client.process.wait(60)
    people.approve(asked)
    client = people.client()
    assert (texts(client.result(client.call("add"))), client.made()) == (["added a"], ["a"])
    assert [each["kind"] for each in people.events("ToolCallFinished")] == ["ok"]


def test_a_proxy_that_is_killed_in_the_middle_of_a_call_never_runs_it_again(people):
    """The next equal call hears that it was lost. The one after that is a new call."""
    client = people.client()
    client.call("wait")
    people.approve(people.pending()[0])
    people.executing()
    os.kill(people.server(), signal.SIGKILL)
    client.process.wait(60)
    client = people.client()
    result = client.result(client.call("wait"))
    assert (result["isError"], MARK in result["_meta"], client.server_heard("tools/call")[1:]) == (True, True, [])
    client.call("wait")
    people.pending(1)


def test_a_client_that_leaves_while_its_call_runs_gets_the_result_when_it_comes_back(people):
    """The proxy lets the call end before it ends itself."""
    client = people.client()
    client.call("wait")
    people.approve(people.pending()[0])
    people.executing()
    client.process.stdout.close()  # else its reply may be written before the end of the input is seen
    client.process.stdin.close()
    client.process.stdin = None
    (client.folder / "go").touch()
    assert client.process.wait(60) == 0
    client = people.client()
    result = client.result(client.call("wait"))
    assert (texts(result)[1], client.made()) == ("added a", ["a"])


def test_a_question_is_withdrawn_when_its_server_is_gone(people):
    """Also by the next proxy, if this one was killed."""
    client = people.client()
    client.call("ask", {"form": {"type": "object", "properties": {}}})
    people.approve(people.pending()[0])
    while not people.events("QuestionAsked"):
        time.sleep(0.01)
    os.kill(people.server(), signal.SIGKILL)
    client.process.wait(60)
    client = people.client()
    client.ask("ping")
    while people.supervisor("approvals", "--json").json:
        time.sleep(0.01)
    assert client.leave() == 0


def test_a_server_that_dies_in_the_middle_of_a_call_is_an_error_and_ends_the_connection(people):
    client = people.client()
    called = client.call("die", {})
    people.approve(people.pending()[0])
    result = client.result(called)
    assert (result["isError"], "may have run" in texts(result)[0], client.process.wait(60)) == (True, True, 1)


def test_a_call_that_takes_too_long_is_cancelled_at_the_server(people):
    client = people.client("--timeout", "0.2")
    called = client.call("wait")
    people.approve(people.pending()[0])
    result = client.result(called)
    assert (result["isError"], "deadline" in texts(result)[0]) == (True, True)
    while not client.server_heard("notifications/cancelled"):
        time.sleep(0.01)


def test_a_cancelled_session_runs_nothing_more_and_the_next_client_has_a_new_one(people):
    client = people.client(session=None)
    (session,) = [each["id"] for each in people.supervisor("sessions", "--json").json]
    called = client.call("add")
    people.pending()
    assert people.supervisor("cancel", session).code == 0
    assert client.result(called)["isError"]
    client.leave()
    people.client(session=None)
    found = {each["id"] for each in people.supervisor("sessions", "--json").json}
    assert found == {session, f"{session}-2"}


def test_a_client_goes_on_in_the_session_of_its_folder_and_a_second_one_has_its_own(people):
    first = people.client(session=None)
    first.call("add")
    people.pending()
    people.client(session=None).leave()
    first.leave()
    again = people.client(session=None)
    sessions = {each["id"] for each in people.supervisor("sessions", "--json").json}
    assert len(sessions) == 2
    called = again.call("add")
    people.approve(people.pending(1)[0])
    assert texts(again.result(called)) == ["added a"]


def test_a_server_gets_the_environment_of_its_client_and_the_mark_by_which_it_decides_nothing(people):
    """No secret of it is in the journal, and it gets none of ours."""
    people.supervisor.env |= {"SLACK_BOT_TOKEN": "xoxb-of-the-server", "SUPERVISOR_TOKEN": "ours"}
    program = people.supervisor.folder / "server.py"
    program.write_text(
        "import os, sys\n"
        "print([name for name in os.environ if 'TOKEN' in name], 'SUPERVISOR_CALL' in os.environ, file=sys.stderr)\n"
    )
    with pytest.raises(AssertionError) as ended:
        people.client(server=["--", sys.executable, "-S", str(program)])
    assert "['SLACK_BOT_TOKEN'] True" in str(ended.value)
    assert b"xoxb-of" not in people.supervisor.store.read_bytes()


def test_only_its_own_command_runs_the_session(people):
    """`resume`, and so a daemon, leaves it alone. A second proxy on it is refused."""
    client = people.client()
    client.call("add")
    asked = people.pending()
    second = people.supervisor("mcp", "--before", "--name", "files", "--session", "s", "--", "cat")
    assert (second.code, second.out) == (6, "")
    client.process.kill()
    people.wait_for_owner("s", None)
    refused = people.supervisor("resume", "s")
    assert (refused.code, "supervisor mcp --before" in refused.err) == (2, True)
    assert people.pending() == asked


def test_a_signal_ends_the_proxy_and_withdraws_nothing(people):
    """What runs may end, and has its result."""
    client = people.client()
    client.call("wait")
    people.approve(people.pending()[0])
    people.executing()
    client.call("add")
    asked = people.pending()
    os.kill(people.server(), signal.SIGTERM)
    (client.folder / "go").touch()
    people.wait_for_owner("s", None)
    assert (people.pending(), client.made()) == (asked, ["a"])
    assert [each["kind"] for each in people.events("ToolCallFinished")] == ["ok"]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--name", "a.b", "--", "x"],
        ["--name", "files"],
        ["--name", "files", "--permissions", "--", "x"],
        ["--name", "files", "--header", "A=B", "--", "x"],
        ["--name", "files", "--header", "Authorization=NOT_SET", "http://127.0.0.1:1/mcp"],
        ["--name", "files", "--timeout", "0", "--", "x"],
    ],
    ids=lambda words: " ".join(words) or "nothing",
)
def test_a_command_line_that_cannot_work_is_refused_in_one_line(supervisor, words):
    refused = supervisor("mcp", "--before", *words)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)


def test_the_proxy_of_the_guide_starts_as_it_is_written_there(people):
    """Before another server: that of the guide is not installed here."""
    block = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    words = json.loads(block)["mcpServers"]["files"]["args"]
    assert words[:5] == ["mcp", "--before", "--name", "files", "--"]
    client = people.client(name=words[3], session=None)
    client.call("add")
    people.pending(1)


def test_a_program_that_does_not_exist_is_named(supervisor):
    refused = supervisor("mcp", "--before", "--name", "files", "--", "no-such-program")
    assert (refused.code, "no-such-program" in refused.err) == (6, True), refused


def test_a_client_that_reads_no_more_ends_the_proxy_and_its_next_call_gets_the_result(people):
    assert people.supervisor("rules", "allow", "files.wait", '{"text":"a"}').code == 0
    client = people.client(is_direct=True)
    client.call("wait")
    people.executing()
    client.process.stdout.close()
    (client.folder / "go").touch()
    assert client.process.wait(60) == 0
    client = people.client()
    result = client.result(client.call("wait"))
    assert (texts(result)[1], client.made()) == ("added a", ["a"])
