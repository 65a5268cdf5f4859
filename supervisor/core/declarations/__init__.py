"""What code declares: agents, tools, their signatures and the schemas of their arguments. Pure."""
