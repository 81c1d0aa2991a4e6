#!/bin/bash
# One node: examples/mpi/run.sh [--hang RANK]
set -eu
exec xpurun --on-hang kill -- \
  mpirun -n "${RANKS_PER_NODE:-2}" python3 "$(dirname "$0")/../train.py" "$@"
