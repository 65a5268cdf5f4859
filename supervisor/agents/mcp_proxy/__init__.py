"""An approval proxy before any MCP server: `supervisor mcp --before --name NAME`."""
