"""The parent waits for its child, the child for somebody who reads."""

import subprocess
import sys

CHILD = "import sys; sys.stdout.write('x' * 1000000)"
child = subprocess.Popen([sys.executable, "-Sc", CHILD], stdout=subprocess.PIPE)
child.wait()
