"""A job without torch whose every move a test decides: stand_in.py SOCKET NODES NODE_RANK RANKS_PER_NODE

Starts the ranks of one node, as a launcher does. Each rank connects to the test's socket
(tests/support/told_job.py), does what it is told, and answers. The connection is a file of this machine: no network of
a node can cut it.
"""

import os
import socket
import subprocess
import sys


def read_shard(test):
    """The fault: away from the others until the test says so."""
    return test.readline()


# Waits for the other ranks, in a place where a verdict knows a wait for others.
WAITS = {}
ALL_REDUCE = """
def all_reduce(test):
    word = test.readline()
    if word == "break\\n":
        raise RuntimeError("Connection closed by peer")
    return word
"""
exec(compile(ALL_REDUCE, "/usr/lib/torch/distributed/distributed_c10d.py", "exec"), WAITS)
all_reduce = WAITS["all_reduce"]


def say(line):
    """In one write, or the lines of several ranks mix."""
    sys.stdout.write(line)
    sys.stdout.flush()


def collate(batch):
    return batch["label"]


def grow():
    blocks = []
    while True:
        blocks.append(os.urandom(1 << 20))


def rank():
    number = int(os.environ["RANK"])
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    test = connection.makefile("rw")
    test.write(f"{number} {os.getpid()}\n")
    test.flush()
    word = all_reduce(test)
    while word.strip() != "end":
        if word == "raise\n":
            collate({})
        if word == "grow\n":
            grow()
        if word.startswith("step"):
            say(f"rank {number} {word}")
        test.write("done\n")
        test.flush()
        word = read_shard(test) if word == "stuck\n" else all_reduce(test)
        if not word:
            sys.exit("the test has gone")
    say(f"rank {number} ends\n")


def launch():
    nodes, node, per_node = map(int, sys.argv[2:5])
    ranks = []
    for local in range(per_node):
        env = {**os.environ, "RANK": str(node * per_node + local), "LOCAL_RANK": str(local),
               "WORLD_SIZE": str(nodes * per_node), "LOCAL_WORLD_SIZE": str(per_node), "GROUP_RANK": str(node),
               "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500"}
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=env))
    return max(abs(r.wait()) for r in ranks)


if __name__ == "__main__":
    sys.exit(rank() if "RANK" in os.environ else launch())
