"""Waits again and again for a database that another process locks for most of the timeout."""

import os
import sqlite3
import subprocess
import sys
import tempfile

SECONDS = float(sys.argv[1])

HOLD = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for _ in range(3):
    db.execute("begin exclusive")
    print(flush=True)
    time.sleep(float(sys.argv[2]) / 3)
    db.execute("commit")
    time.sleep(0.3)
"""
with tempfile.TemporaryDirectory() as scratch:
    path = os.path.join(scratch, "db")
    db = sqlite3.connect(path, timeout=3600, isolation_level=None)
    db.execute("create table steps (n)")
    holder = subprocess.Popen([sys.executable, "-c", HOLD, path, str(SECONDS)], stdout=subprocess.PIPE)
    for n in range(3):
        holder.stdout.readline()
        db.execute("insert into steps values (?)", (n,))
    assert holder.wait() == 0
