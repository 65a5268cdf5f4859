"""Agents that other programs and libraries run: each module makes an agent of ours out of one of theirs."""
