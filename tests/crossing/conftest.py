"""The fakes of the chat platforms are those of their own tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "channels" / "chat"))
