#!/bin/bash
# One of several nodes: examples/torchrun/node.sh NODE_RANK NODES HEAD_HOST [--hang RANK]
# Start it on every node, in a directory that all nodes share: --nats auto leaves there how to join the other nodes.
set -eu
node_rank=$1 nodes=$2 head=$3
shift 3
exec xpurun --name "${JOB_NAME:-train}" --nats auto --nodes "$nodes" --node-rank "$node_rank" --on-hang kill -- \
  torchrun --nnodes "$nodes" --node_rank "$node_rank" --nproc_per_node "${RANKS_PER_NODE:-2}" \
  --master_addr "$head" --master_port "${PORT:-29500}" "$(dirname "$0")/../train.py" "$@"
