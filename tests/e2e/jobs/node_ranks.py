"""A launcher for the ranks of one node: node_ranks.py NODES NODE_RANK RANKS_PER_NODE PORT PROGRAM [ARGUMENT]...

Gives every rank the variables that torchrun gives, without importing torch. Ends with the first rank that fails,
after it has ended the others, and with its status.
"""

import os
import signal
import subprocess
import sys


def main():
    nodes, node_rank, per_node, port = map(int, sys.argv[1:5])
    ranks = []
    for local in range(per_node):
        env = {
            **os.environ,
            "RANK": str(node_rank * per_node + local),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(nodes * per_node),
            "LOCAL_WORLD_SIZE": str(per_node),
            "GROUP_RANK": str(node_rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
        }
        ranks.append(subprocess.Popen(sys.argv[5:], env=env))
    signal.signal(signal.SIGTERM, lambda *_: [r.terminate() for r in ranks])
    by_pid = {rank.pid: rank for rank in ranks}
    worst = 0
    while by_pid:
        pid, status = os.wait()
        if by_pid.pop(pid, None) is None:
            continue
        code = os.waitstatus_to_exitcode(status)
        if code != 0 and worst == 0:
            worst = code if code > 0 else 1
            for rank in by_pid.values():
                rank.terminate()
    return worst


if __name__ == "__main__":
    sys.exit(main())
