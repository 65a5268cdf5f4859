"""What a shell does with a job: gives it the terminal, takes it back when it stops, and lets it go on. Arguments: the
job's, a Python program."""

import os
import signal
import subprocess
import sys
import termios
from pathlib import Path


def take_terminal() -> None:
    os.setpgid(0, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


signal.signal(signal.SIGTTOU, signal.SIG_IGN)
mode = termios.tcgetattr(0)
asking = Path(__file__).with_name("asking.py")
job = subprocess.Popen([sys.executable, asking, *sys.argv[1:]], preexec_fn=take_terminal)
_, status = os.waitpid(job.pid, os.WUNTRACED)
os.tcsetpgrp(0, os.getpgrp())
print(f"stopped: {os.WIFSTOPPED(status)}, as it was: {termios.tcgetattr(0) == mode}", file=sys.stderr, flush=True)
os.tcsetpgrp(0, job.pid)
os.killpg(job.pid, signal.SIGCONT)
sys.exit(job.wait())
