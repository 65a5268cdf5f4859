"""LangGraph: a graph of one node that interrupts, resumed by Command; every checkpoint durable (durability="sync")."""

import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    note: str
    answer: str


def ask(state: State) -> dict[str, Any]:
    return {"answer": interrupt({"note": state["note"]})}


def graph() -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder


def config(number: int) -> Any:
    return {"configurable": {"thread_id": f"t{number}"}}


def run_sync(path: str, count: int) -> float:
    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    compiled = graph().compile(checkpointer=saver)
    begun = time.perf_counter()
    for number in range(count):
        compiled.invoke({"note": "x" * 200, "answer": ""}, config(number), durability="sync")
    for number in range(count):
        assert compiled.invoke(Command(resume="yes"), config(number), durability="sync")["answer"] == "yes"
    return count / (time.perf_counter() - begun)


async def run_async(path: str, count: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(path) as saver:
        compiled = graph().compile(checkpointer=saver)
        begun = time.perf_counter()
        start = {"note": "x" * 200, "answer": ""}
        await asyncio.gather(*(compiled.ainvoke(start, config(n), durability="sync") for n in range(count)))
        resume: Any = Command(resume="yes")
        ends = await asyncio.gather(*(compiled.ainvoke(resume, config(n), durability="sync") for n in range(count)))
        assert all(end["answer"] == "yes" for end in ends)
        return count / (time.perf_counter() - begun)


with tempfile.TemporaryDirectory(dir=".") as folder:
    count, path = int(sys.argv[1]), f"{folder}/state.db"
    rate = run_sync(path, count) if sys.argv[2] == "sync" else asyncio.run(run_async(path, count))
    connection = sqlite3.connect(path)
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    print(json.dumps({"per_second": rate, "durability": f"SQLite {mode}, synchronous=FULL, each checkpoint"}))
