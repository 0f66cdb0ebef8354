"""The tests. What they compile is kept, whatever the machine prefers: else every worker would
compile all of it, and so would every deployctl that a test starts."""

import os
import sys

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
