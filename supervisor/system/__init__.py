"""What the operating system says of this process: its user and host, the call that may have started it, and who else
can use its files and its memory; and how its interpreter is tuned.
"""
