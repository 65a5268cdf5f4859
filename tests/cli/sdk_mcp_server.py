"""An MCP server that is written with the official package: over stdio, or over HTTP at a port.

python sdk_mcp_server.py [PORT]
"""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ImageContent, TextContent
from pydantic import BaseModel


class Sum(BaseModel):
    total: int


class Colour(BaseModel):
    colour: str


server = MCPServer("sums")


@server.tool()
async def add(a: int, b: int, ctx: Context) -> Sum:
    """Add two numbers."""
    await ctx.report_progress(1, 2, "half of it")
    return Sum(total=a + b)


@server.tool(structured_output=False)
def draw() -> list[TextContent | ImageContent]:
    """Draw."""
    return [TextContent(type="text", text="a dot"), ImageContent(type="image", data="aGk=", mime_type="image/png")]


@server.tool()
async def paint(ctx: Context) -> str:
    """Ask for a colour."""
    answer = await ctx.elicit("Which colour?", Colour)
    return f"{answer.action} {getattr(getattr(answer, 'data', None), 'colour', None)}"


@server.tool()
def who(ctx: Context) -> str:
    """Return what the client's headers say."""
    return str((ctx.headers or {}).get("authorization"))


@server.resource("notes://all")
def notes() -> str:
    """Return the notes."""
    return "a note"


@server.prompt()
def greet(name: str) -> str:
    """Greet."""
    return f"Say hello to {name}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
