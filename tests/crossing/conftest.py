"""The fakes of the chat platforms, people of the web, and the replay of histories are those of other tests."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / folder) for folder in ("channels/chat", "channels/web", "temporal")]
