"""One rank ends and leaves a monitor process behind, with the rank's variables and connections."""

import os
import ranks
import subprocess

if ranks.RANK == 2:
    for name in os.listdir("/proc/self/fd"):
        try:
            os.set_inheritable(int(name), True)
        except OSError:
            pass  # the directory's own descriptor
    subprocess.Popen(["sleep", "10000"], close_fds=False)
    os._exit(0)
ranks.step()
