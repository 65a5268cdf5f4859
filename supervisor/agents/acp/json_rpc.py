"""JSON-RPC 2.0 with a process: requests in both directions, each with its own answer, until the process is gone.

Theory: one task, `carry`, reads. It calls `on_request` and `on_notification` and takes answers in the order in which
the messages come, without an await in between. So what came before an answer has been handled when its waiter goes on.

Rules
- Requests are independent: they are answered in any order, and giving up one of them leaves the others alone. An answer
  that comes later is dropped.
- What we send goes into a queue with a task of its own, so that a process that does not read cannot hold the reading. A
  process that leaves 10,000 messages unread counts as gone.
- The end is the same for all: every request that waits, and each later one, raises the one `Disconnected`. It says how
  the process has ended, and its last words.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import anyio

from supervisor.agents.acp.json_lines import LineTooLong, Message, Talking, Wire
from supervisor.system.logs import FactLog

log = FactLog(__name__)

UNREAD: Final = 10_000  # messages to a process that wait
LAST_WORDS_CHARACTERS: Final = 2_000  # characters of its standard error that an error quotes

Id = int | str | None


class RemoteError(Exception):
    """The process has answered a request with an error. `code` is None if it gave none; `data` is its own."""

    def __init__(self, method: str, error: Any) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        code = fields.get("code")
        self.method = method
        self.code = code if isinstance(code, int) else None
        self.message = str(fields.get("message"))
        self.data = fields.get("data")
        super().__init__(f"{method}: {self.message} ({self.code})")


class Disconnected(Exception):
    """The process has ended, or cannot be talked with any more.

    `exit_code` or `signal` is set if it has ended, and neither if it lives or its status is unknown. `last_words`: the
    end of its standard error.
    """

    def __init__(self, reason: str, exit_code: int | None = None, signal: int | None = None, words: str = "") -> None:
        self.exit_code, self.signal, self.last_words = exit_code, signal, words
        said = f"; its last words: {words}" if words else ""
        super().__init__(f"{reason}{said}")


class _Waiting:
    """A request without an answer."""

    __slots__ = ("answer", "event", "on_answer")

    def __init__(self, on_answer: Callable[[], None]) -> None:
        self.on_answer = on_answer
        self.event = anyio.Event()
        self.answer: Message | None = None


class Peer:
    """The other side of a conversation. `on_request(id, method, params)` is answered with `answer` or `refuse`, now or
    later; `on_notification(method, params)`. Both are called by `carry`."""

    exits_within: float = 2.0
    """Seconds that a process has to exit once it has closed one of its streams."""

    def __init__(
        self,
        process: Talking,
        *,
        on_request: Callable[[Id, str, Any], None],
        on_notification: Callable[[str, Any], None],
    ) -> None:
        self._process = process
        self._wire = Wire(process)
        self._on_request = on_request
        self._on_notification = on_notification
        self._number = 0
        self._waiting: dict[int, _Waiting] = {}
        self._outbox, self._to_send = anyio.create_memory_object_stream[Message](UNREAD)
        self._scope = anyio.CancelScope()
        self._reason = "the process has closed its standard output"
        self.is_over = False
        """Whether nothing comes from the process any more, and nothing reaches it."""
        self.disconnected: Disconnected | None = None
        """Why no message comes any more; None while messages can come."""

    async def carry(self) -> None:
        """Send and receive until the process is gone, or the caller cancels; the requests that wait then raise."""
        try:
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._send_all)
                    await self._receive_all()
                    tasks.cancel_scope.cancel()
            self.is_over = True
            self.disconnected = await self._why()
        finally:
            self.is_over = True
            self.disconnected = self.disconnected or Disconnected("the conversation was ended")
            self._outbox.close()
            self._to_send.close()
            for waiting in self._waiting.values():
                waiting.event.set()

    async def request(self, method: str, params: Any, on_answer: Callable[[], None] = lambda: None) -> Any:
        """Send a request and return its result; `on_answer` is called as soon as the answer has come, result or error.

        Raises RemoteError for an error, Disconnected if the process is gone before it answers.
        """
        self._number += 1
        number, waiting = self._number, _Waiting(on_answer)
        self._waiting[number] = waiting
        try:
            if self.disconnected is None:
                self._post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                await waiting.event.wait()
        finally:
            del self._waiting[number]
        if waiting.answer is None:
            assert self.disconnected is not None
            raise self.disconnected
        if waiting.answer.get("error") is not None:
            raise RemoteError(method, waiting.answer["error"])
        return waiting.answer.get("result")

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""
        self._post({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: Id, result: Any) -> None:
        """Answer a request of the process with a result."""
        self._post({"jsonrpc": "2.0", "id": number, "result": result})

    def refuse(self, number: Id, code: int, message: str) -> None:
        """Answer a request of the process with an error."""
        self._post({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}})

    def _post(self, message: Message) -> None:
        try:
            self._outbox.send_nowait(message)
        except anyio.WouldBlock:
            self._reason = f"the process does not read its standard input: {UNREAD} messages wait"
            self._scope.cancel()
        except anyio.ClosedResourceError:
            pass  # the process is gone

    async def _send_all(self) -> None:
        with suppress(anyio.BrokenResourceError):
            async for message in self._to_send:
                await self._wire.send(message)
        await anyio.sleep(self.exits_within)  # what it has written before its end may be unread
        self._reason = "the process has closed its standard input"
        self._scope.cancel()

    async def _receive_all(self) -> None:
        with suppress(anyio.EndOfStream):
            try:
                while True:
                    self._take(await self._wire.receive())
            except LineTooLong as error:
                self._reason = f"the process cannot be talked with: {error}"

    def _take(self, message: Message) -> None:
        method, number = message.get("method"), message.get("id")
        if not isinstance(method, str):
            self._take_answer(number, message)
        elif "id" in message:
            self._on_request(number, method, message.get("params"))
        else:
            self._on_notification(method, message.get("params"))

    def _take_answer(self, number: object, message: Message) -> None:
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.answer is not None:
            log.debug("answer.dropped", id=number, error=message.get("error"))
            return
        waiting.answer = message
        waiting.on_answer()
        waiting.event.set()

    async def _why(self) -> Disconnected:
        """Return why the conversation is over: how the process has ended, if it has or soon does."""
        code = signal = None
        ended = ""
        with anyio.move_on_after(self.exits_within):
            finished = await self._process.wait()
            code, signal = finished.exit_code, finished.signal
            ended = "unknown how" if code is signal is None else f"signal {signal}" if code is None else f"code {code}"
        words = self._process.stderr_tail().strip()[-LAST_WORDS_CHARACTERS:]
        reason = f"the process has ended ({ended})" if ended else self._reason
        return Disconnected(reason, code, signal, words)
