#!/usr/bin/env python3
"""An ACP agent without a model, for tests: it does what its script says, on standard input and output, as real ones do.

    python fake_agent.py [SCRIPT]          standard library only; SCRIPT is JSON, or the path of a file of JSON

A script is one object. All its fields are optional:

    turns      list of turns; a turn is a list of steps. The n-th prompt of a session takes the n-th turn, counted over
               all lives of the agent (the session is on disk). A prompt after the last turn says "done" and ends.
               A prompt whose text is itself JSON, a list of steps, takes these steps and no turn of the script.
               A turn ends with stopReason end_turn unless a step says otherwise.
    protocol   protocolVersion of the answer to initialize (1)
    load       what session/load does: "replay" (default: all updates again, then its answer), "fail" (-32603),
               "missing" (not offered, -32601)
    replayed   status that a replayed call has, whatever became of it: "completed" (codex), "pending" (opencode)
    resume     true: session/resume is offered, and goes on without a replay
    forgets    true: no session is found again; load and resume answer -32002
    login      true: session/new answers auth_required (-32000); authMethods names one method
    deaf       true: the end of standard input and SIGTERM change nothing
    ignores_cancel   true: session/cancel changes nothing (else: asks get their answers, the turn ends as cancelled)
    reject_ends      true: a rejected ask ends the whole turn as cancelled (codex)
    dies_in    a method: the agent exits with 3 when such a request comes, after a line on standard error
    at_start   steps before the first message is read: garbage, stderr, exit, child

A step is an object; "do" names what is done:

    {"do": "say", "text": T, "times": 1}          agent_message_chunk; `think`: agent_thought_chunk
    {"do": "flood", "text": T, "times": N}        N agent_message_chunk, each T, which the session does not keep
    {"do": "plan", "entries": ["a", "b"]}         plan
    {"do": "call", "id": I, "title": T, "kind": K, "input": {...}, "status": "in_progress"}      tool_call
    {"do": "called", "id": I, "status": "completed", "text": T}                                  tool_call_update
    {"do": "ask", "id": I, "title": T, "kind": K, "input": {...}, "options": [...], "wait": true, "effect": E}
                                                  session/request_permission. An `allow_*` answer appends E (default: I)
                                                  to effects, and the call is updated to completed; any other answer
                                                  updates it to failed. "input": null leaves rawInput out. Without
                                                  "call" before it, it is the first mention of the call.
                                                  options: [{"optionId", "name", "kind"}]; default: yes/always/no/never.
                                                  "wait": false goes on at once; `await` waits for the answer.
                                                  "holds": true: it gets its answer, but its effect and its end come
                                                  only with `await` of it.
                                                  "if_rejected": steps instead of going on.
                                                  "after": F: once allowed, the effect waits for the file F in the home.
    {"do": "await", "ids": [I, ...]}              wait for the answers of these asks, in whichever order they come
    {"do": "effect", "text": E}                   append to effects without asking
    {"do": "update", "update": {...}}             any session/update; unknown kinds too
    {"do": "request", "method": M, "params": {}}  any request to the client; its answer is in heard
    {"do": "notify", "method": M, "params": {}}   any notification
    {"do": "garbage", "text": T, "times": 1}      a line on standard output that is no message
    {"do": "big", "bytes": N}                     agent_message_chunk with a text of N bytes, in one line
    {"do": "stderr", "text": T, "times": 1}       a line on standard error
    {"do": "sleep", "seconds": S}                 silent, but hears a cancel
    {"do": "hang"}                                silent until a cancel
    {"do": "wait_for", "file": F}                 silent until the file F exists in the home folder, or a cancel
    {"do": "child", "deaf": true}                 start a process in a session of its own that sleeps for 1000 s
    {"do": "close"}                               close standard output, and live on
    {"do": "exit", "code": 3}                     exit in the middle; {"do": "kill"}: by SIGKILL
    {"do": "fail", "code": -32603, "message": M}  answer the prompt with an error; "data" too, if given
    {"do": "stop", "reason": "refusal"}           end the turn with this stopReason

The environment variable FAKE_AGENT_HOME names the agent's folder. It contains

    effects      a line for each effect: tests count them
    heard        a line of JSON for each message that the client sent, in order: {"pid": ..., "message": {...}}
    started      a line for each life: its pid
    overlaps     a line for each life that began while a former one lived
    environment  JSON: the environment of the last life
    sessions/    what the agent knows of each session

A line is in these files before the agent goes on. SIGTERM ends it at once, the end of standard input ends it, too.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

OPTIONS = [
    {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
    {"optionId": "always", "name": "Always allow", "kind": "allow_always"},
    {"optionId": "no", "name": "Reject", "kind": "reject_once"},
    {"optionId": "never", "name": "Always reject", "kind": "reject_always"},
]
PAUSE = 0.01  # seconds between two looks at a file that a test makes


class TurnOver(Exception):
    """The turn ends; `answer` is the prompt's result, or `error` its error."""

    def __init__(self, reason="end_turn", error=None):
        super().__init__(reason)
        self.answer = {"stopReason": reason}
        self.error = error


class Refused(Exception):
    """A request gets an error as its answer."""

    def __init__(self, code, message, data=None):
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Wire:
    """Lines of JSON-RPC: a thread reads, any thread writes."""

    def __init__(self, heard, on_end, is_deaf):
        self.requests = queue.Queue()
        self.cancelled = threading.Event()
        self._heard = heard
        self._on_end = on_end
        self._is_deaf = is_deaf
        self._answers = {}
        self._writing = threading.Lock()
        self._next = 0

    def read(self):
        for line in sys.stdin.buffer:
            message = json.loads(line)
            append(self._heard, json.dumps({"pid": os.getpid(), "message": message}))
            if "method" not in message:
                self._answers.pop(message["id"]).put(message)
                continue
            if message["method"] == "session/cancel":
                self.cancelled.set()
                continue
            if message["method"] == "session/prompt":
                self.cancelled.clear()  # here, in the order of the messages: a cancel may follow at once
            self.requests.put(message)
        self._on_end()

    def line(self, raw):
        with self._writing:
            try:
                sys.stdout.buffer.write(raw + b"\n")
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                if not self._is_deaf:
                    os._exit(1)

    def send(self, **message):
        self.line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def ask(self, method, params):
        """Send a request; return the queue into which its answer is put."""
        self._next += 1
        answer = self._answers[self._next] = queue.Queue()
        self.send(id=self._next, method=method, params=params)
        return answer


class Session:
    """What the agent keeps of a session on disk: the number of its prompts, and its updates."""

    def __init__(self, folder, name):
        self.name = name
        self._file = folder / f"{name}.json"
        self.prompts, self.updates = json.loads(self._file.read_text()).values() if self._file.exists() else (0, [])

    @property
    def exists(self):
        return self._file.exists()

    def save(self):
        draft = self._file.with_suffix(".new")
        draft.write_text(json.dumps({"prompts": self.prompts, "updates": self.updates}))
        draft.replace(self._file)


class Agent:
    def __init__(self, script):
        self.script = script
        self.home = Path(os.environ["FAKE_AGENT_HOME"])
        (self.home / "sessions").mkdir(parents=True, exist_ok=True)
        (self.home / "environment").write_text(json.dumps(dict(os.environ)))
        started = self.home / "started"
        if any(lives(pid) for pid in (started.read_text().split() if started.exists() else ())):
            append(self.home / "overlaps", str(os.getpid()))
        append(started, str(os.getpid()))
        self.wire = Wire(self.home / "heard", self.end_of_input, bool(script.get("deaf")))
        self.session = None
        self.asked = {}
        self.updating = threading.Lock()

    # -- the protocol --------------------------------------------------------------------------------------------------

    def serve(self):
        if self.script.get("deaf"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.take(self.script.get("at_start", []))
        threading.Thread(target=self.wire.read, daemon=True).start()
        while True:
            message = self.wire.requests.get()
            try:
                if message["method"] == self.script.get("dies_in"):
                    self.do_stderr(f"fake: no {message['method']}")
                    os._exit(3)
                result = self.answer(message["method"], message.get("params", {}))
            except Refused as refused:
                self.wire.send(id=message["id"], error=refused.error)
            else:
                self.wire.send(id=message["id"], result=result)

    def end_of_input(self):
        if not self.script.get("deaf"):
            os._exit(0)

    def answer(self, method, params):
        load = self.script.get("load", "replay")
        match method:
            case "initialize":
                return {
                    "protocolVersion": self.script.get("protocol", 1),
                    "agentCapabilities": {
                        "loadSession": load != "missing",
                        "sessionCapabilities": {"resume": {}} if self.script.get("resume") else {},
                    },
                    "authMethods": [{"id": "login", "name": "Log in", "description": "Run `fake login` in a terminal"}]
                    if self.script.get("login")
                    else [],
                    "agentInfo": {"name": "fake", "version": "1"},
                }
            case "session/new":
                if self.script.get("login"):
                    raise Refused(-32000, "Authentication required")
                self.session = Session(self.home / "sessions", f"fake-{os.urandom(4).hex()}")
                self.session.save()
                return {"sessionId": self.session.name}
            case "session/load" if load != "missing":
                self.find(params["sessionId"])
                if load == "fail":
                    raise Refused(-32603, "Internal error")
                for update in self.session.updates:
                    self.send_update(self.replayed(update))
                return {}
            case "session/resume" if self.script.get("resume"):
                self.find(params["sessionId"])
                return {}
            case "session/prompt":
                return self.prompt("".join(each.get("text", "") for each in params["prompt"]))
        raise Refused(-32601, f"Method not found: {method}")

    def find(self, name):
        self.session = Session(self.home / "sessions", name)
        if self.script.get("forgets") or not self.session.exists:
            raise Refused(-32002, f"Resource not found: {name}")

    def replayed(self, update):
        status = self.script.get("replayed")
        return update | {"status": status} if status and update["sessionUpdate"].startswith("tool_call") else update

    def prompt(self, text):
        self.asked = {}
        turns, number = self.script.get("turns", []), self.session.prompts
        self.session.prompts += 1
        self.keep({"sessionUpdate": "user_message_chunk", "content": content(text)})
        steps = json.loads(text) if text.startswith("[") else turns[number : number + 1]
        steps = steps if text.startswith("[") else steps[0] if steps else [{"do": "say", "text": "done"}]
        try:
            self.take(steps)
        except TurnOver as over:
            if over.error is not None:
                raise Refused(**over.error) from None
            return over.answer
        return {"stopReason": "end_turn"}

    def update(self, update, /, **fields):
        update = {"sessionUpdate": update, **fields}
        self.keep(update)
        self.send_update(update)

    def keep(self, update):
        with self.updating:
            self.session.updates.append(update)
            self.session.save()

    def send_update(self, update):
        self.wire.send(method="session/update", params={"sessionId": self.session.name, "update": update})

    # -- the steps -----------------------------------------------------------------------------------------------------

    def take(self, steps):
        for step in steps:
            fields = dict(step)
            getattr(self, f"do_{fields.pop('do')}")(**fields)
            self.hear_cancel()

    def hear_cancel(self):
        if self.wire.cancelled.is_set() and not self.script.get("ignores_cancel"):
            for name in list(self.asked):
                self.do_await([name], hears_cancel=False)
            raise TurnOver("cancelled")

    def wait_until(self, is_over):
        while not is_over():
            if self.wire.cancelled.wait(PAUSE):
                self.hear_cancel()
                time.sleep(PAUSE)

    def do_say(self, text, times=1):
        for _ in range(times):
            self.update("agent_message_chunk", content=content(text))

    def do_think(self, text, times=1):
        for _ in range(times):
            self.update("agent_thought_chunk", content=content(text))

    def do_flood(self, text, times):
        for _ in range(times):
            self.send_update({"sessionUpdate": "agent_message_chunk", "content": content(text)})

    def do_plan(self, entries):
        rows = [{"content": each, "priority": "medium", "status": "pending"} for each in entries]
        self.update("plan", entries=rows)

    def do_call(self, id, title="call", kind="execute", input=None, status="in_progress", content=None):  # noqa: A002
        self.update("tool_call", **call_of(id, title, kind, input, status, content))

    def do_called(self, id, status="completed", text=None, **fields):  # noqa: A002
        if text is not None:
            fields["content"] = [{"type": "content", "content": content(text)}]
        self.update("tool_call_update", toolCallId=id, status=status, **fields)

    def do_ask(
        self,
        id,  # noqa: A002
        title="call",
        kind="execute",
        input=None,  # noqa: A002
        options=OPTIONS,
        wait=True,
        holds=False,
        effect=None,
        if_rejected=None,
        after=None,
        content=None,
    ):
        call = call_of(id, title, kind, input, "pending", content)
        self.keep({"sessionUpdate": "tool_call", **call})
        params = {"sessionId": self.session.name, "toolCall": call, "options": options}
        answer = self.wire.ask("session/request_permission", params)
        asked = Asked(answer, {each["optionId"]: each["kind"] for each in options}, effect or id, if_rejected, after)
        self.asked[id] = asked
        if not holds:
            threading.Thread(target=self.act, args=(id, asked), daemon=True).start()
        if wait:
            self.do_await([id])

    def act(self, name, asked):
        """Wait for the answer of an ask, and do what it says: once."""
        with asked.lock:
            if asked.is_over.is_set():
                return
            outcome = asked.answer.get().get("result", {}).get("outcome", {})
            asked.is_allowed = asked.kinds.get(outcome.get("optionId"), "").startswith("allow")
            while asked.is_allowed and asked.after and not (self.home / asked.after).exists():
                time.sleep(PAUSE)
            if asked.is_allowed:
                append(self.home / "effects", asked.effect)
                self.do_called(name, "completed")
            else:
                self.do_called(name, "failed")
            asked.is_over.set()

    def do_await(self, ids, hears_cancel=True):
        for name in ids:
            asked = self.asked[name]
            threading.Thread(target=self.act, args=(name, asked), daemon=True).start()
            asked.is_over.wait()
            del self.asked[name]
            if not asked.is_allowed and hears_cancel:
                self.hear_cancel()
                if self.script.get("reject_ends"):
                    raise TurnOver("cancelled")
                self.take(asked.if_rejected or [])

    def do_effect(self, text):
        append(self.home / "effects", text)

    def do_update(self, update):
        self.send_update(update)

    def do_request(self, method, params=None):
        self.wire.ask(method, params or {}).get()

    def do_notify(self, method, params=None):
        self.wire.send(method=method, params=params or {})

    def do_garbage(self, text, times=1):
        for _ in range(times):
            self.wire.line(text.encode("utf-8", "surrogateescape"))

    def do_big(self, bytes):  # noqa: A002
        self.send_update({"sessionUpdate": "agent_message_chunk", "content": content("x" * bytes)})

    def do_stderr(self, text, times=1):
        for _ in range(times):
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def do_sleep(self, seconds):
        until = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= until)

    def do_hang(self):
        self.wait_until(lambda: False)

    def do_wait_for(self, file):
        self.wait_until((self.home / file).exists)

    def do_child(self, deaf=True):
        program = f"trap '' TERM; echo $$ > {self.home}/child; sleep 1000" if deaf else "sleep 1000"
        subprocess.Popen(["/bin/sh", "-c", program], start_new_session=True, stdin=subprocess.DEVNULL)
        self.wait_until(lambda: not deaf or (self.home / "child").exists())

    def do_close(self):
        sys.stdout.flush()
        os.close(1)

    def do_exit(self, code=0):
        os._exit(code)

    def do_kill(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def do_fail(self, code=-32603, message="Internal error", data=None):
        raise TurnOver(error={"code": code, "message": message, "data": data})

    def do_stop(self, reason):
        raise TurnOver(reason)


class Asked:
    """A permission that the agent has asked for."""

    def __init__(self, answer, kinds, effect, if_rejected, after):
        self.answer, self.kinds, self.effect, self.if_rejected, self.after = answer, kinds, effect, if_rejected, after
        self.is_allowed = False
        self.is_over = threading.Event()
        self.lock = threading.Lock()


def content(text):
    return {"type": "text", "text": text}


def call_of(name, title, kind, given, status, shown):
    call = {"toolCallId": name, "title": title, "kind": kind, "status": status}
    return call | ({} if given is None else {"rawInput": given}) | ({} if shown is None else {"content": shown})


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def append(path, line):
    with path.open("a") as file:
        file.write(line + "\n")


def main():
    given = sys.argv[1] if len(sys.argv) > 1 else "{}"
    Agent(json.loads(given if given.lstrip().startswith("{") else Path(given).read_text())).serve()


if __name__ == "__main__":
    main()
