"""What the operating system says about this process: its user and host, the call that may have started it, and which
other users can use its files and memory; and settings of its interpreter.
"""
