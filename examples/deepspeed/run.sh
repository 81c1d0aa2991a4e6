#!/bin/bash
# One node: examples/deepspeed/run.sh [--hang RANK]
set -eu
exec xpurun --on-hang kill -- \
  deepspeed --num_gpus "${RANKS_PER_NODE:-2}" --master_port "${PORT:-29500}" "$(dirname "$0")/train.py" "$@"
