#!/bin/bash
# One node: examples/torchrun/run.sh [--hang RANK]
set -eu
exec xpurun --on-hang kill -- \
  torchrun --standalone --nproc_per_node "${RANKS_PER_NODE:-2}" "$(dirname "$0")/../train.py" "$@"
