"""A FastAPI application that starts agents, and shows its users what they ask.

pip install . fastapi        # hypercorn comes with the supervisor; other servers will do
hypercorn fastapi_app:app    # or on trio: hypercorn --worker-class trio fastapi_app:app
curl -X PUT http://127.0.0.1:8000/reports/may
curl http://127.0.0.1:8000/approvals
curl -X POST http://127.0.0.1:8000/approvals/ID/approve -H 'X-User: ana'
curl http://127.0.0.1:8000/reports/may
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse

from supervisor import Approve, Context, InvalidInput, NotFound, Supervisor, agent, id_from, open_supervisor, tool


@tool
async def mail(report: str) -> str:
    return f"mailed {report}"


@agent
async def write_report(ctx: Context, month: str) -> str:
    return (await ctx.call(mail, f"the report of {month}")).content


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    async with open_supervisor("reports.db", agents=[write_report], adopt=True) as supervisor:
        yield {"supervisor": supervisor}


async def get_supervisor(request: Request) -> Supervisor:
    return request.state.supervisor


app = FastAPI(lifespan=lifespan)
Opened = Annotated[Supervisor, Depends(get_supervisor)]
User = Annotated[str, Header(alias="X-User")]  # take it from your own login


@app.exception_handler(InvalidInput)
async def refuse(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, 422)  # what was wrong with what the user sent


@app.put("/reports/{month}", status_code=202)
async def start(month: str, supervisor: Opened) -> dict[str, str]:
    run = await supervisor.start(write_report, month, session=id_from("report", month))  # repeated, it finds the first
    return {"session": run.session}


@app.get("/reports/{month}")
async def read(month: str, supervisor: Opened) -> dict[str, Any]:
    try:
        session = await supervisor.get_session(id_from("report", month))
    except NotFound:
        raise HTTPException(404, "this report was not started") from None
    return {"status": session.status, "outcome": session.outcome}


@app.get("/approvals")
async def approvals(supervisor: Opened) -> list[dict[str, Any]]:
    return [{"id": one.id, "tool": one.tool, "arguments": one.arguments} for one in await supervisor.find_approvals()]


@app.post("/approvals/{approval}/approve")
async def approve(approval: str, user: User, supervisor: Opened) -> dict[str, str]:
    return {"result": (await supervisor.decide(approval, Approve(by=user))).kind}
