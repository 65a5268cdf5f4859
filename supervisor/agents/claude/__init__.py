"""Claude Code asks people through an MCP server of ours."""
