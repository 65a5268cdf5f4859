"""Messages that people keep themselves: each call without a result gets one, and nothing else changes."""

import copy
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from supervisor import InvalidInput, repair_messages
from supervisor.core.sessions.transcript import TEXT

HI = {"role": "user", "content": "hi"}


def chat(*ids):
    return {"role": "assistant", "tool_calls": [{"id": own, "type": "function", "function": {}} for own in ids]}


def chat_result(own, text=TEXT):
    return {"role": "tool", "tool_call_id": own, "content": text}


def claude(*ids):
    return {"role": "assistant", "content": [{"type": "tool_use", "id": own, "name": "f", "input": {}} for own in ids]}


def block(own, text=TEXT):
    return {"type": "tool_result", "tool_use_id": own, "content": text} | ({"is_error": True} if text == TEXT else {})


def gemini(*names, role="model"):
    return {"role": role, "parts": [{"functionCall": {"name": name, "args": {}}} for name in names]}


def part(name, response):
    return {"functionResponse": {"name": name, "response": response}}


def test_the_program_of_the_guide_repairs_what_it_says():
    """It is executed as it stands in repair.md, with its assertions. test_repair.py of the commands has the others."""
    page = (Path(__file__).parents[2] / "docs/how-to/repair.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(program, "repair.md", "exec"), {})


def test_a_chat_gets_a_tool_message_after_those_of_the_siblings():
    """OpenAI's API wants all results before the next message."""
    made = [HI, chat("a", "b"), chat_result("a", "ok"), HI]
    assert repair_messages(made) == [*made[:3], chat_result("b"), HI]


def test_results_of_one_reply_of_claude_are_in_one_message_before_a_persons_words():
    """Anthropic's API wants them all at the beginning of the next message."""
    words = {"type": "text", "text": "and?"}
    made = [HI, claude("a", "b"), {"role": "user", "content": [block("b", "ok"), words]}]
    assert repair_messages(made)[2] == {"role": "user", "content": [block("b", "ok"), block("a"), words]}
    assert repair_messages([claude("a", "b"), HI])[1:] == [{"role": "user", "content": [block("a"), block("b")]}, HI]


def test_results_do_not_join_those_of_another_shape():
    """A message may have calls in two shapes; a tool message has no place for a block."""
    made = [{**claude("a"), "tool_calls": chat("b")["tool_calls"]}, chat_result("b", "ok"), HI]
    assert repair_messages(made) == [*made[:2], {"role": "user", "content": [block("a")]}, HI]
    made[1]["content"] = [{"type": "text", "text": "ok"}]
    assert repair_messages(made) == [*made[:2], {"role": "user", "content": [block("a")]}, HI]


def test_gemini_s_calls_are_paired_by_name_where_they_have_no_id():
    """One content has as many responses as the one before it has calls."""
    made = [gemini("f", "f"), {"role": "user", "parts": [part("f", {"result": 1})]}]
    assert repair_messages(made)[1]["parts"] == [part("f", {"result": 1}), part("f", {"error": TEXT})]
    assert repair_messages(made[:1])[1:] == [{"role": "user", "parts": [part("f", {"error": TEXT})] * 2}]


ITEMS = [
    {"type": "function_call", "name": "f", "arguments": "{}"},
    {"type": "custom_tool_call", "name": "f", "input": "x"},
    {
        "type": "local_shell_call",
        "id": "l",
        "status": "completed",
        "action": {"type": "exec", "command": [], "env": {}},
    },
    {"type": "shell_call", "action": {"commands": ["make"]}},
    {"type": "apply_patch_call", "status": "completed", "operation": {"type": "delete_file", "path": "x"}},
    {"type": "tool_search_call", "execution": "client", "arguments": {}},
]


@pytest.mark.parametrize("item", ITEMS, ids=[item["type"] for item in ITEMS])
def test_an_item_of_the_responses_api_gets_an_output_that_the_api_knows(item):
    """Each kind of call has an output of its own kind, directly after it; OpenAI's own types accept it."""
    items = pytest.importorskip("openai.types.responses.response_input_item_param")
    pydantic = pytest.importorskip("pydantic")
    call = {**item, "call_id": "c1"}
    first, output, last = repair_messages([call, HI])
    assert (first, last) == (call, HI)
    pydantic.TypeAdapter(items.ResponseInputItemParam).validate_python(output)
    assert "c1" in (output.get("call_id"), output.get("id"))
    assert repair_messages([call, output, HI]) == [call, output, HI]


def test_calls_that_a_server_runs_need_no_result():
    """Their results come from the same server, in the same message."""
    made = [
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "tool_search_call", "execution": "server", "call_id": None},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}]},
        {"role": "assistant", "content": "done", "tool_calls": None, "function_call": None},
    ]
    assert repair_messages(made) == made


@pytest.mark.parametrize("made", [[chat_result("a", "ok"), chat("a")], [chat("a"), chat(), chat_result("a", "ok")]])
def test_a_result_out_of_place_counts_where_one_call_has_its_id(made):
    """The call is answered; a second result would be a second answer."""
    assert repair_messages(made) == made


def test_an_id_that_is_used_again_is_paired_by_occurrence():
    """Some models number their calls from the start in each reply."""
    made = [chat("a"), chat_result("a", "ok"), chat("a"), HI]
    assert repair_messages(made) == [*made[:3], chat_result("a"), HI]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("words", "not a dictionary"),
        ({"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}, "'id'"),
        ({"type": "function_call", "name": "f"}, "'call_id'"),
        ({"type": "computer_call", "call_id": "c"}, "picture"),
    ],
)
def test_a_call_that_cannot_be_answered_is_an_error_that_names_its_message(message, said):
    """A list that an API refuses all the same is not returned as repaired."""
    with pytest.raises(InvalidInput, match=f"message 1.*{said}"):
        repair_messages([HI, message])


IDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
ANSWERED = st.lists(st.booleans(), min_size=3, max_size=3)
FRAMES = st.lists(st.tuples(IDS, ANSWERED, st.booleans()), max_size=5)


def conversation(shape, frames):
    """Write frames of calls, some with results and some with a person's words after them."""
    messages = []
    for ids, answered, has_words in frames:
        done = [own for own, is_done in zip(ids, answered, strict=False) if is_done]
        if shape == "chat":
            messages += [chat(*ids), *(chat_result(own, "ok") for own in done)]
        elif shape == "responses":
            messages += [{"type": "function_call", "call_id": own, "name": "f", "arguments": "{}"} for own in ids]
            messages += [{"type": "function_call_output", "call_id": own, "output": "ok"} for own in done]
        elif shape == "anthropic":
            messages += [claude(*ids), *[{"role": "user", "content": [block(own, "ok") for own in done]}] * bool(done)]
        else:
            parts = [part(own, {"result": "ok"}) for own in done]
            messages += [gemini(*ids), *[{"role": "user", "parts": parts}] * bool(done)]
        messages += [{"role": "user", "parts": [{"text": "hi"}]} if shape == "gemini" else HI] * has_words
    return messages


def without_added(messages):
    """Remove what has the text of a synthesised result, and messages that have nothing else."""
    kept = []
    for message in messages:
        if message.get("content") == TEXT or message.get("output") == TEXT:
            continue
        for holder in ("content", "parts"):
            if isinstance(message.get(holder), list):
                message = {**message, holder: [each for each in message[holder] if not is_added(each)]}
                if not message[holder]:
                    break
        else:
            kept.append(message)
    return kept


def is_added(each):
    return TEXT in (each.get("content"), each.get("functionResponse", {}).get("response", {}).get("error"))


@given(st.sampled_from(["chat", "responses", "anthropic", "gemini"]), FRAMES)
def test_every_dangling_call_gets_one_result_and_nothing_else_changes(shape, frames):
    """Without what was added, the list is the given one; the given one is untouched; a second repair adds nothing."""
    made = conversation(shape, frames)
    before = copy.deepcopy(made)
    repaired = repair_messages(made)
    assert (made, without_added(repaired)) == (before, before)
    assert repair_messages(repaired) == repaired
    lacking = sum(len(ids) - sum(answered[: len(ids)]) for ids, answered, _ in frames)
    assert json.dumps(repaired).count(json.dumps(TEXT)) == lacking


@given(st.sampled_from(["chat", "anthropic", "gemini"]), FRAMES)
def test_all_results_of_a_reply_are_directly_after_it(shape, frames):
    """The calls and the results of each reply are the same, before anything else is said."""
    named = {"chat": "tool_call_id", "anthropic": "tool_use_id", "gemini": "name"}[shape]
    replies = []
    for message in repair_messages(conversation(shape, frames)):
        if message["role"] in ("assistant", "model"):
            replies.append([])
        else:
            replies[-1].append(message)
    for (ids, _, has_words), after in zip(frames, replies, strict=True):
        results = json.dumps(after[:-1] if has_words else after)
        assert all(results.count(f'"{named}": "{own}"') == ids.count(own) for own in ids)
