"""A small MCP server over stdio, without a package: each start of one that has the SDK takes a second of CPU.

    python small_mcp_server.py FOLDER

What it was asked is in FOLDER/heard, a message a line. Its tools:

    add {"text"}      appends to FOLDER/made, and returns text, an image and structured content
    wait {"text"}     does that too, when FOLDER/go exists; tells of progress meanwhile
    look {}           only reads
    fail {}           returns an error; `break` answers with an error of JSON-RPC
    ask {"form"}      elicits, and returns the answer
    sample {}         asks the client's model, and returns the answer
    die {}            ends without an answer
"""

import json
import sys
import threading
import time
from pathlib import Path

FOLDER = Path(sys.argv[1])
GO = FOLDER / "go"
STATED = threading.Lock()
answers = {}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ANY = {"type": "object"}
TOOLS = [
    {"name": "add", "inputSchema": TEXT, "outputSchema": {"type": "object"}},
    {"name": "wait", "inputSchema": TEXT},
    {"name": "look", "inputSchema": ANY, "annotations": {"readOnlyHint": True}},
    *({"name": name, "inputSchema": ANY} for name in ("fail", "break", "ask", "sample", "die")),
]


def tell(**message):
    with STATED:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def ask_client(method, params):
    """Send a request to the client, and wait for its answer."""
    request = f"server-{time.monotonic_ns()}"
    tell(id=request, method=method, params=params)
    while request not in answers:
        time.sleep(0.005)
    return answers[request]


def made(text):
    with (FOLDER / "made").open("a") as file:
        file.write(f"{text}\n")
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    return {"content": [{"type": "text", "text": f"added {text}"}, image], "structuredContent": {"added": text}}


def result_of(tool, arguments, token):
    if tool == "wait":
        for step in range(1_000_000):
            if GO.exists():
                break
            if token is not None and step % 20 == 0:
                tell(method="notifications/progress", params={"progressToken": token, "progress": step + 1})
            time.sleep(0.01)
    if tool in ("add", "wait"):
        return made(arguments["text"])
    if tool == "fail":
        return {"content": [{"type": "text", "text": "it failed"}], "isError": True}
    if tool == "ask":
        params = {"message": "Which one?", "requestedSchema": arguments["form"]}
        return {"content": [{"type": "text", "text": json.dumps(ask_client("elicitation/create", params))}]}
    if tool == "sample":
        answer = ask_client("sampling/createMessage", {"messages": [], "maxTokens": 5})
        return {"content": [{"type": "text", "text": json.dumps(answer)}]}
    if tool == "die":
        import os

        os._exit(3)
    return {"content": [{"type": "text", "text": "looked"}]}


def call(message):
    params = message["params"]
    if params["name"] == "break":
        tell(id=message["id"], error={"code": -32050, "message": "it broke", "data": [1]})
        return
    result = result_of(params["name"], params["arguments"], params.get("_meta", {}).get("progressToken"))
    tell(id=message["id"], result=result)


def answer(message):
    method = message["method"]
    if method == "initialize":
        about = {"name": "Mallory's", "version": "1"}
        offered = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
        version = message["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": offered, "serverInfo": about}
    return {"tools": TOOLS} if method == "tools/list" else {"echo": message}


def main():
    for line in sys.stdin:
        message = json.loads(line)
        with (FOLDER / "heard").open("a") as file:
            file.write(line)
        if message.get("method") == "tools/call":
            threading.Thread(target=call, args=[message], daemon=True).start()
        elif "method" not in message:
            answers[message["id"]] = message
        elif "id" in message:
            tell(id=message["id"], result=answer(message))


main()
