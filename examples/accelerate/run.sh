#!/bin/bash
# One node: examples/accelerate/run.sh [--hang RANK]. Without GPUs set ACCELERATE_USE_CPU=true in the environment.
set -eu
exec xpurun --on-hang kill -- \
  accelerate launch --multi_gpu --num_machines 1 --mixed_precision no --dynamo_backend no \
  --num_processes "${RANKS_PER_NODE:-2}" "$(dirname "$0")/train.py" "$@"
