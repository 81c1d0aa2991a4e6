#!/bin/bash
# Several nodes: examples/mpi/nodes.sh HOST,HOST... [--hang RANK], in a directory that all nodes share.
# mpirun starts one xpurun on each node, and torchrun starts the ranks of the node.
set -eu
hosts=$1
shift
head=${hosts%%,*} commas=${hosts//[!,]/}
exec mpirun --host "$hosts" --map-by ppr:1:node \
  xpurun --nats auto --on-hang kill -- \
  torchrun --nnodes "$((${#commas} + 1))" --nproc_per_node "${RANKS_PER_NODE:-2}" --rdzv_id "${JOB_NAME:-train}" \
  --rdzv_backend c10d --rdzv_endpoint "$head:${PORT:-29500}" "$(dirname "$0")/../train.py" "$@"
