"""The parent waits for its child; the child waits for a reader of its pipe."""

import subprocess
import sys

# Not sys.stdout: a stop for a dump ends a blocked write() early, and unbuffered, Python drops the rest.
CHILD = "import os\nwhile True: os.write(1, bytes(65536))"
child = subprocess.Popen([sys.executable, "-Sc", CHILD], stdout=subprocess.PIPE)
child.wait()
