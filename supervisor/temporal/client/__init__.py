"""A client: the Supervisor of a namespace, for a command, a program or a server. It runs no agent.

remote       the Supervisor: one method each            served       that of a server
starting     starts of sessions                         commands     signals to a tree
decisions    who decides: a claim                       trees        where sessions and approvals are
runs         runs and watches                           turns        of a tree that has ended
forks        trees that begin with a copy               imports      sessions of other programs
rescue       of sessions whose code has changed         cards        one card, however many servers
"""
