"""Starts two JAX processes, one for each GPU."""

import os
import subprocess
import sys

port = os.environ.get("MASTER_PORT", "29555")
here = os.path.dirname(os.path.abspath(__file__))
procs = []
for r in range(2):
    env = dict(
        os.environ,
        RANK=str(r),
        LOCAL_RANK=str(r),
        WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port,
        XLA_PYTHON_CLIENT_PREALLOCATE="false",
    )
    procs.append(subprocess.Popen([sys.executable, os.path.join(here, "jax_dp.py")], env=env))
codes = [p.wait() for p in procs]
sys.exit(max(abs(c) for c in codes))
