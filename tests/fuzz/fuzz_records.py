"""What the agents of random programs have seen and done, in files that outlive their processes."""

import os


def record(name: str, line: str) -> None:
    """Add a line to a file of this case. The machine does not die here, so nothing syncs."""
    file = os.open(f"{os.environ['FUZZ_FOLDER']}/{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)


def process() -> int:
    """Return the id of this process. An agent may not ask for it by itself."""
    return os.getpid()
