"""Two threads that import each other's module."""

import importlib
import os
import sys
import tempfile

directory = tempfile.mkdtemp()
for one, other in (("left", "right"), ("right", "left")):
    with open(os.path.join(directory, one + ".py"), "w") as f:
        f.write(f"import threading, time; time.sleep(0.3)\nt = threading.Thread(target=__import__, args=('{other}',))\n"
                "t.start(); t.join()\n")
sys.path.insert(0, directory)
importlib.import_module("left")
