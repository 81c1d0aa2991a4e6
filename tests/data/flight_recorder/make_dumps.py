"""Writes Flight Recorder dumps as torch writes them, for jobs that hang in a known way.

usage: make_dumps.py DIR SCENARIO [--ranks N] [--calls N] [--version 2.10] [--json]

The layout is the one of the dumps in torch-2.11/ beside this file, which a real job left.
"""

import argparse
import json
import pathlib
import pickle
import pickletools

START = 1_700_000_000_000_000_000
TORCH = "/usr/lib/python3/site-packages/torch/distributed/distributed_c10d.py"


def frames(op, line):
    return [
        {"name": op, "filename": TORCH, "line": 2000},
        {"name": "wrapper", "filename": TORCH.replace("distributed_c10d", "c10d_logger"), "line": 83},
        {"name": "train_step", "filename": "/job/train.py", "line": line},
        {"name": "<module>", "filename": "/job/train.py", "line": 90},
    ]


class Recorder:
    """The entries of one rank."""

    def __init__(self, rank, groups, args):
        self.rank, self.groups, self.args = rank, groups, args
        self.entries = []
        self.collectives = {name: 0 for name, _, _ in groups}
        self.transfers = {name: 0 for name, _, _ in groups}

    def call(self, op, group="0", size=1024, line=10, done=True, dtype="Float", output=None):
        self.collectives[group] += 1
        self.add(op, group, [[size]], [[output or size]], dtype, line, done, False)

    def transfer(self, kind, peer, group="0", size=256, line=20, done=True):
        """A send or a receive; ranks in the name are those in the group."""
        members = next(ranks for name, _, ranks in self.groups if name == group)
        arrow = "->" if kind == "send" else "<-"
        name = f"{kind} {members.index(self.rank)}{arrow}{members.index(peer)}"
        self.transfers[group] += 1
        self.add(name, group, [[size]], [[size]], "Float", line, done, True)

    def add(self, op, group, inputs, outputs, dtype, line, done, p2p, state=None):
        number = len(self.entries)
        description = next(text for name, text, _ in self.groups if name == group)
        old = self.args.version.startswith("1.")
        entry = {
            "frames": frames(op.split(" ")[0], line),
            "record_id": number,
            "pg_id": [name for name, _, _ in self.groups].index(group),
            "process_group": (group, description),
            "profiling_name": "nccl:" + op,
            "op_id": number + 1,
            "time_created_ns": START + number * 1_000_000,
            "input_sizes": inputs,
            "input_dtypes": [dtype] * len(inputs),
            "output_sizes": outputs,
            "output_dtypes": [dtype] * len(outputs),
            "state": state or ("completed" if done else "scheduled"),
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": START + number * 1_000_000 + 500 if done else None,
            "retired": done,
            "timeout_ms": 600_000,
            "is_p2p": p2p,
        }
        if old:
            entry["seq_id"] = self.collectives[group] + self.transfers[group]
        else:
            entry["collective_seq_id"] = self.collectives[group]
            entry["p2p_seq_id"] = self.transfers[group]
        self.entries.append(entry)

    def dump(self):
        status = {}
        for i, (name, _, ranks) in enumerate(self.groups):
            if self.rank in ranks:
                mine = [e for e in self.entries if e["process_group"][0] == name and not e["is_p2p"]]
                done = [e for e in mine if e["state"] == "completed"]
                status[str(i)] = {
                    "last_enqueued_collective": len(mine) or -1,
                    "last_started_collective": -1,
                    "last_completed_collective": len(done) or -1,
                }
        config = {
            name: {"name": name, "desc": text, "ranks": str(list(ranks))}
            for name, text, ranks in self.groups
            if self.rank in ranks
        }
        out = {"version": self.args.version, "pg_config": config}
        if self.args.version >= "2.3" or self.args.version.startswith("2.1"):
            out["pg_status"] = status
        out["entries"] = self.entries[-self.args.buffer:]
        return out


def world(n):
    return [("0", "default_pg", list(range(n)))]


def mismatch(rec, args):
    last = args.ranks - 1
    for _ in range(args.calls):
        rec.call("all_reduce")
    if rec.rank == last:
        rec.call("broadcast", size=2048, line=19, done=False)
    else:
        rec.call("all_reduce", line=18, done=False)


def size(rec, args):
    for _ in range(args.calls):
        rec.call("_all_gather_base", output=1024 * args.ranks)
    rec.call("all_reduce", size=512 if rec.rank == 1 else 1024, line=30, done=False)


def behind(rec, args):
    for _ in range(args.calls):
        rec.call("all_reduce")
    if rec.rank != 1:
        rec.call("all_reduce", line=44, done=False)


def missing(rec, args):
    """As behind, but rank 1 wrote no dump."""
    behind(rec, args)
    return rec.rank == 1


def missing_send(rec, args):
    """A pipeline: rank r sends to r + 1. Rank 0 leaves the last send out."""
    for _ in range(args.calls):
        if rec.rank > 0:
            rec.transfer("recv", rec.rank - 1)
        if rec.rank + 1 < args.ranks:
            rec.transfer("send", rec.rank + 1)
    if rec.rank > 0:
        rec.transfer("recv", rec.rank - 1, line=55, done=False)


def groups_of_two(n):
    pairs = [(str(1 + i // 2), "tp", [i, i + 1]) for i in range(0, n - 1, 2)]
    return world(n) + pairs


def nested(rec, args):
    """Rank 1 is late in its tensor-parallel group; the others wait in the world or in their groups."""
    own = str(1 + rec.rank // 2)
    for _ in range(args.calls):
        rec.call("all_reduce", group=own)
        rec.call("all_reduce")
    if rec.rank == 0:
        rec.call("all_reduce", group=own, line=61, done=False)
    elif rec.rank > 1:
        rec.call("all_reduce", group=own, line=61)
        rec.call("all_reduce", line=62, done=False)


def ordinary(rec, args):
    for _ in range(args.calls):
        rec.call("all_reduce")


SCENARIOS = {
    "mismatch": mismatch,
    "size": size,
    "behind": behind,
    "missing": missing,
    "missing_send": missing_send,
    "nested": nested,
    "ordinary": ordinary,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--buffer", type=int, default=2000)
    parser.add_argument("--version", default="2.10")
    parser.add_argument("--prefix", default="nccl_trace_rank_")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    args.dir.mkdir(parents=True, exist_ok=True)
    groups = groups_of_two(args.ranks) if args.scenario == "nested" else world(args.ranks)
    for rank in range(args.ranks):
        recorder = Recorder(rank, [g for g in groups if rank in g[2]], args)
        if SCENARIOS[args.scenario](recorder, args):
            continue
        path = args.dir / f"{args.prefix}{rank}"
        if args.json:
            path.with_name(path.name + ".json").write_text(json.dumps(recorder.dump()))
        else:
            # torch writes protocol 2 and no more opcodes than needed.
            path.write_bytes(pickletools.optimize(pickle.dumps(recorder.dump(), protocol=2)))


if __name__ == "__main__":
    main()
