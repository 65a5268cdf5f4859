"""A client: the Supervisor of a namespace, for a command, a program or a server. It runs no agent."""
