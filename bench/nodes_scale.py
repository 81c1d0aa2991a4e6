"""Time and memory of the report of a job of very many nodes, as the elected node makes it.

usage: nodes_scale.py XPURUN [--nodes 1000] [--ranks 8] [--threads 16] [--stacks 40] [--silent 2] [--repeat 3]
                      [--keep DIR]

XPURUN is commands/xpurun in the build directory. The run directory is generated first (not timed): run.json of every
node, its dump with dump.json, stacks of RANKS ranks at STACKS different positions, and collectives.json with a group of
all ranks, one of the node and one of the ranks with the same local rank. One rank stands outside the call; SILENT nodes
have sent nothing. Then `xpurun report DIR` is run REPEAT times, and the verdict is checked.
"""

import argparse
import json
import pathlib
import tempfile

import merge_scale

BEGIN = 1795230873000000000


def process(rank, pid):
    return {
        "pid": pid,
        "ppid": 4000,
        "role": "rank",
        "rank": rank,
        "identity": "torchrun",
        "comm": "python3",
        "cmdline": ["python3", "train.py", "--layers", "48"],
        "python": True,
        "seen_s": 2.0,
        "last_progress_s": 31.9,
    }


def run_manifest(node, ranks, options):
    workers = [{"pid": 5000 + 10 * i + w, "role": "worker", "rank": r, "comm": "pt_data_worker", "seen_s": 3.0}
               for i, r in enumerate(ranks) for w in range(4)]
    return {"schema": "xpurun.run/1", "version": "0.1.0", "id": f"job-{node:04}", "host": f"node{node:04}",
            "started_wall_ns": BEGIN + node * 1000000, "elapsed_s": 47.3, "command": ["torchrun", "train.py"],
            "hang_timeout_s": 10, "world_size": options.nodes * options.ranks, "outcome": "running",
            "supervisor_pid": 3999, "main_pid": 4000,
            "processes": [process(r, 4001 + i) for i, r in enumerate(ranks)] + workers,
            "env": {f"NCCL_OPTION_{i}": "some value" for i in range(30)},
            "stalls": [{"n": 1, "at_s": 42.0, "cleared_s": -1, "dump": "dumps/1-hang"}],
            "dumps": [{"n": 1, "why": "hang", "dir": "dumps/1-hang", "at_s": 42.1}]}


def text_of(ranks):
    """As xpurun writes a long list of members."""
    if ranks.step == 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))


def communicator(name, rank, members, absent):
    called = 28 if absent else 29
    calls = [
        {
            "sequence": s,
            "op": "all_reduce",
            "reduce": "sum",
            "count": 4096,
            "dtype": "bfloat16",
            "stage": "called" if s == 29 else "done",
            "age_s": 10.0 + 29 - s,
            "where": {"function": "train_step", "file": "/home/user/project/train.py", "line": 33, "callee": ""},
        }
        for s in range(called - 7, called + 1)
    ]
    return {"source": "torch", "id": name, "name": name, "rank": members.index(rank), "size": len(members),
            **({"members": list(members)} if len(members) <= 64 else {"members": [], "member_set": text_of(members)}),
            "called": called, "launched": called, "started": called,
            "done": called if absent else 28, "done_known": True, "comparable": True, "calls": calls}


def collectives(ranks, guilty, options):
    world = range(options.nodes * options.ranks)
    out = []
    for i, r in enumerate(ranks):
        groups = [communicator("world", r, world, r == guilty)]
        for name, members in (("node%d" % (r // options.ranks), ranks), ("dp%d" % i, world[i::options.ranks])):
            group = communicator(name, r, members, True)
            groups.append(group)
        out.append({"rank": r, "pid": 4001 + i, "communicators": groups})
    return {"schema": "xpurun.collectives/1", "ranks": out}


def put_node(path, node, guilty, texts, options):
    ranks = range(node * options.ranks, (node + 1) * options.ranks)
    dump = path / "dumps" / "1-hang"
    dump.mkdir(parents=True)
    processes, seen = [], []
    for i, r in enumerate(ranks):
        stack = 0 if r == guilty else 1 + r % (options.stacks - 1)
        (dump / f"rank-{r}.stacks.json").write_text(
            merge_scale.text_of_rank(texts[stack], r, 4001 + i, i, f"node{node:04}"))
        processes.append({"pid": 4001 + i, "rank": r, "role": "rank", "status": "ok", "pause_ns": 812345,
                          "file": f"rank-{r}.stacks.json"})
        seen.append({"rank": r, "pid": 4001 + i, "host": f"node{node:04}", "alive": True, "state": "S",
                     "has_python": True, "still_s": 10.2, "window_s": 5, "function": "all_reduce",
                     "file": merge_scale.TORCH + "/distributed/distributed_c10d.py", "line": 2501})
    (dump / "dump.json").write_text(json.dumps({
        "schema": "xpurun.dump/1", "n": 1, "why": "hang", "host": f"node{node:04}", "at_s": 42.1,
        "wall_ns": BEGIN + 42100000000, "hang_timeout_s": 10, "spread_ns": 3400000, "processes": processes,
        "ranks": seen}))
    (dump / "collectives.json").write_text(json.dumps(collectives(ranks, guilty, options)))
    (path / "run.json").write_text(json.dumps(run_manifest(node, ranks, options)))


def generate(path, options):
    """The rank that stands outside the call."""
    guilty = options.nodes * options.ranks // 3
    outside = [merge_scale.native("clock_nanosleep", "libc.so.6", 1),
               merge_scale.py("load_batch", merge_scale.TRAIN, 31), merge_scale.py("main", merge_scale.TRAIN, 52)]
    mains = [outside] + [merge_scale.main_frames(i) for i in range(1, options.stacks)]
    texts = [merge_scale.process_text(frames, options.threads, BEGIN + 42100000000) for frames in mains]
    entries = []
    for node in range(options.nodes):
        # Not this node, not that of the guilty rank.
        silent = 0 < node <= options.silent and node != guilty // options.ranks
        name = f"node{node:04}"
        if not silent:
            put_node(path if node == 0 else path / "nodes" / name, node, guilty, texts, options)
        entries.append({"node": name, "host": name, "node_rank": node, "status": "cut_off" if silent else "complete",
                        "silent_s": 20 if silent else 0,
                        "ranks": list(range(node * options.ranks, (node + 1) * options.ranks)),
                        "offset_ns": node * 1000, "uncertainty_ns": 100000,
                        "directory": "" if silent or node == 0 else f"nodes/{name}",
                        "dump": "" if silent else "dumps/1-hang"})
    (path / "nodes.json").write_text(json.dumps({"schema": "xpurun.nodes/1", "this_node": "node0000",
                                                 "elected": "node0000", "nodes": entries}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("xpurun")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--stacks", type=int, default=40)
    parser.add_argument("--silent", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="generate here, or use what was generated here before")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temp:
        run = given.keep or pathlib.Path(temp) / "run"
        if not (run / "nodes.json").exists():
            generate(run, given)
        size = sum(f.stat().st_size for f in run.rglob("*.json"))
        print(f"{given.nodes} nodes, {given.nodes * given.ranks} ranks, {given.threads} threads each, {given.silent}"
              f" silent, {size / 1e6:.0f} MB", flush=True)
        merge_scale.times("xpurun report", [given.xpurun, "report", "--quiet", run], given.repeat)
        verdict = json.loads((run / "verdict.json").read_text())
        print(verdict["sentence"])
        if verdict["ranks"] != [given.nodes * given.ranks // 3]:
            raise SystemExit("the wrong rank")
        print(f"page {(run / 'report.html').stat().st_size / 1e3:.0f} kB, report.json"
              f" {(run / 'report.json').stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
