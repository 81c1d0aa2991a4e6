"""Opens a pipe that nobody writes to."""

import os
import tempfile

path = os.path.join(tempfile.mkdtemp(), "pipe")
os.mkfifo(path)
open(path).read()
