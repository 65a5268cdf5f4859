"""A model for real coding agents, without a provider: its answers are written in the prompt.

    unshare -n python tests/agents/coding_model.py [LOG]

It brings up the loopback of its network namespace, prints its port, and serves there what agents ask of a provider, as
one answer or as a stream: OpenAI's chat completions and responses, Anthropic's messages, Google's generateContent.

The prompt holds a script, a JSON list after the word `script:`. Each step is one answer of the model:

    ["run", "make test"]                   a shell command, by the tool that this agent offers for it
    ["write", "/absolute/path", "text"]    a new file, likewise
    ["tool", "name", {...}]                any other tool; NAMESPACE/NAME for one of an MCP server in Codex
    ["both", [step], [step]]               several of those in one answer
    ["say", "text"]                        text; the turn ends
    ["silent", seconds]                    nothing for so long, then the text `late`

The server keeps no state: the last script of a conversation counts, and the position in it is the number of tool
results since it was said for the first time. A result that only says that the call was lost, since the agent was
killed in it, does not count: an agent that goes on asks for that call again. So it does with one that was cut off,
if a later prompt says to make `this call again`. After the last step the model says `done`.
With LOG, each request is appended to that file, one JSON object a line: {"path", "body"}.
"""

import itertools
import json
import re
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ids = itertools.count(1)
AGAIN = "this call again"
CUT = re.compile(r"aborted|rejected")
LOST = re.compile(r"aborted$|\[Tool (execution was|call) interrupted")  # in the words of Codex, OpenCode, Claude Code

# -- what is to be said next: the same for each protocol -------------------------------------------------------------


def script_of(text):
    """The script in a user's message, or None."""
    _, found, rest = text.partition("script:")
    return json.JSONDecoder().raw_decode(rest.lstrip())[0] if found else None


def next_step(turns):
    """`turns`: (role, text) in order, role one of user, result. The step that the model takes now."""
    script, position, is_cut = None, 0, False
    for role, text in turns:
        if role == "user" and (found := script_of(text)) not in (None, script):
            script, position = found, 0
        elif role == "user" and is_cut and AGAIN in text:
            position, is_cut = position - 1, False
        elif role == "result":
            is_lost = LOST.match(text) is not None
            position += not is_lost
            is_cut = not is_lost and CUT.search(text) is not None
    if script is None:
        return ["say", "ok"]
    for step in script:
        size = len(step) - 1 if step[0] == "both" else 1
        if position < size:
            return step if not position else ["say", "done"]
        position -= size
    return ["say", "done"]


def calls_of(step, offered):
    """The (tool, arguments) of a step, in words of the tools that this agent offers."""
    match step:
        case ["both", *steps]:
            return [call for each in steps for call in calls_of(each, offered)]
        case ["tool", name, arguments]:
            return [(name, arguments)]
        case ["run", command]:
            return [(name, make(command)) for name, make in RUN.items() if name in offered][:1]
        case ["write", path, text]:
            return [(name, make(path, text)) for name, make in WRITE.items() if name in offered][:1]
    return []


RUN = {
    "bash": lambda command: {"command": command, "description": "runs a command"},  # OpenCode
    "Bash": lambda command: {"command": command, "description": "runs a command"},  # Claude Code
    "shell_command": lambda command: {"command": command},  # Codex, by the model's name
    "exec_command": lambda command: {"cmd": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
    "run_shell_command": lambda command: {"command": command, "description": "runs a command"},  # Gemini CLI
}
WRITE = {
    "write": lambda path, text: {"filePath": path, "content": text},
    "Write": lambda path, text: {"file_path": path, "content": text},
    "write_file": lambda path, text: {"file_path": path, "content": text},
    "apply_patch": lambda path, text: f"*** Begin Patch\n*** Add File: {path}\n+{text}\n*** End Patch",
}


def text_of(content):
    if isinstance(content, list):
        return "\n".join(text_of(part) for part in content)
    if isinstance(content, dict):
        return text_of(content.get("text", content.get("content", "")))
    return str(content or "")


# -- the four protocols: (turns, names of tools) of a request, and the events of an answer --------------------------


def read_chat(body):
    roles = {"user": "user", "tool": "result"}
    turns = [(roles[each["role"]], text_of(each["content"])) for each in body["messages"] if each["role"] in roles]
    return turns, [each["function"]["name"] for each in body.get("tools", [])]


def chat(body, text, calls):
    made = [
        {
            "index": index,
            "id": f"call_{next(ids)}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text or None} | ({"tool_calls": made} if made else {})
    reason = "tool_calls" if made else "stop"
    head = {"id": f"chat_{next(ids)}", "created": 0, "model": body["model"]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return head | {"object": "chat.completion", "choices": [choice], "usage": usage}
    head |= {"object": "chat.completion.chunk"}
    return [
        (None, head | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        (None, head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}),
        (None, "[DONE]"),
    ]


def read_responses(body):
    turns = []
    for each in body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]:
        if each.get("role") == "user":
            turns.append(("user", text_of(each["content"])))
        elif each.get("type", "").endswith("_call_output"):
            turns.append(("result", text_of(each["output"])))
    return turns, [each.get("name", "") for each in body.get("tools", [])]


def responses(body, text, calls):
    items = []
    if text:
        parts = [{"type": "output_text", "text": text, "annotations": []}]
        items.append({"type": "message", "role": "assistant", "id": f"msg_{next(ids)}", "content": parts})
    for named, arguments in calls:
        space, _, name = named.rpartition("/")  # Codex has the tools of an MCP server in a namespace
        call = {"id": f"fc_{next(ids)}", "call_id": f"call_{next(ids)}", "name": name, "status": "completed"}
        call |= {"namespace": space} if space else {}
        if isinstance(arguments, str):  # a free-form tool
            items.append(call | {"type": "custom_tool_call", "input": arguments})
        else:
            items.append(call | {"type": "function_call", "arguments": json.dumps(arguments)})
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": f"resp_{next(ids)}", "object": "response", "model": body["model"], "usage": usage}
    whole |= {"output": items, "status": "completed"}
    if not body.get("stream"):
        return whole
    events = [("response.created", {"response": whole | {"output": [], "status": "in_progress"}})]
    for index, item in enumerate(items):
        events.append(("response.output_item.added", {"output_index": index, "item": item | {"content": []}}))
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            events.append(("response.output_text.delta", place | {"delta": text}))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return [(name, {"type": name} | data) for name, data in events]


def read_messages(body):
    turns = []
    for message in body["messages"]:
        if message["role"] != "user":
            continue
        parts = message["content"]
        for part in parts if isinstance(parts, list) else [{"type": "text", "text": parts}]:
            if part["type"] == "tool_result":
                turns.append(("result", text_of(part.get("content"))))
            elif part["type"] == "text":
                turns.append(("user", part["text"]))
    return turns, [each["name"] for each in body.get("tools", [])]


def messages(body, text, calls):
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": f"toolu_{next(ids)}", "name": name, "input": given} for name, given in calls]
    usage = {"input_tokens": 1, "output_tokens": 1}
    reason = "tool_use" if calls else "end_turn"
    whole = {
        "id": f"msg_{next(ids)}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
    }
    whole |= {"stop_reason": reason, "stop_sequence": None, "usage": usage}
    if not body.get("stream"):
        return whole
    events = [("message_start", {"message": whole | {"content": [], "stop_reason": None}})]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = block | {"text": ""}, {"type": "text_delta", "text": text}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append(("content_block_start", {"index": index, "content_block": empty}))
        events.append(("content_block_delta", {"index": index, "delta": delta}))
        events.append(("content_block_stop", {"index": index}))
    events.append(("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}))
    events.append(("message_stop", {}))
    return [(name, {"type": name} | data) for name, data in events]


def read_contents(body):
    turns = []
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                turns.append(("result", json.dumps(part["functionResponse"]["response"])))
            elif content.get("role") == "user" and "text" in part:
                turns.append(("user", part["text"]))
    return turns, [each["name"] for tool in body.get("tools", []) for each in tool.get("functionDeclarations", [])]


def contents(body, text, calls):
    parts = [{"text": text}] if text else []
    parts += [{"functionCall": {"id": f"call_{next(ids)}", "name": name, "args": given}} for name, given in calls]
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m"}
    return [(None, whole)] if body.get("stream") else whole


PROTOCOLS = {
    "/v1/chat/completions": (read_chat, chat),
    "/v1/responses": (read_responses, responses),
    "/v1/messages": (read_messages, messages),
    "generateContent": (read_contents, contents),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log_path = None

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer({})

    def do_GET(self):
        self.answer({"object": "list", "data": []})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        if (model := re.fullmatch(r"/v1beta/models/.*:(stream)?generateContent", path, re.IGNORECASE)) is not None:
            path, body["stream"] = "generateContent", model[1] is not None
        if self.log_path:
            with Path(self.log_path).open("a") as log:
                log.write(json.dumps({"path": path, "body": body}) + "\n")
        if path not in PROTOCOLS:
            return self.answer({"input_tokens": 1})
        read, write = PROTOCOLS[path]
        turns, offered = read(body)
        step = next_step(turns) if offered else ["say", "a title"]
        text = step[1] if step[0] == "say" else "late" if step[0] == "silent" else ""
        if step[0] == "silent":
            time.sleep(step[1])
        self.answer(write(body, text, calls_of(step, offered)))
        return None

    def answer(self, made):
        if isinstance(made, list):
            lines = []
            for name, data in made:
                lines += [f"event: {name}\n"] if name else []
                lines.append(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
            payload, kind = "".join(lines).encode(), "text/event-stream"
        else:
            payload, kind = json.dumps(made).encode(), "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)


def main():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Handler.log_path = sys.argv[1] if len(sys.argv) > 1 else None
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
