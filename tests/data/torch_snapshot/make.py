"""Writes snapshot-2.pickle and snapshot-1.pickle beside it: small memory snapshots in the form of
torch.cuda.memory._dump_snapshot(), as torch 2.1 to 2.15 and torch 1.13 write them. No GPU and no torch is needed.
"""

import pathlib
import pickle

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20


def frame(file, line, name):
    return {"filename": file, "line": line, "name": name}


LINEAR = frame("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 114, "forward")
ATTENTION = [LINEAR, frame("/job/model.py", 88, "attention"), frame("/job/train.py", 40, "main")]
ADAM = [frame("/usr/lib/python3/site-packages/torch/optim/adamw.py", 143, "_init_group"),
        frame("/usr/lib/python3/site-packages/torch/optim/optimizer.py", 484, "step"),
        frame("/job/train.py", 44, "main")]
MOVED = [frame("/usr/lib/python3/site-packages/torch/nn/modules/module.py", 1329, "convert"),
         frame("/usr/lib/python3/site-packages/torch/nn/modules/module.py", 903, "_apply"),
         frame("/job/train.py", 30, "main")]


def block(address, size, state="active_allocated", frames=(), **more):
    return {"address": address, "size": size, "requested_size": size - 12, "state": state, "frames": list(frames),
            **more}


def newest():
    shared = list(ATTENTION)  # pickle refers to a list that it has written
    segment = {"device": 1, "address": 0x7f0000000000, "total_size": 64 * MIB, "allocated_size": 49 * MIB,
               "active_size": 50 * MIB, "requested_size": 49 * MIB, "stream": 0, "segment_type": "large",
               "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
               "blocks": [block(0x7f0000000000, 16 * MIB, frames=shared), block(0x7f0001000000, 16 * MIB, frames=shared),
                          block(0x7f0002000000, 8 * MIB, frames=ADAM), block(0x7f0002800000, 8 * MIB, frames=MOVED),
                          block(0x7f0003000000, MIB), block(0x7f0003100000, MIB, "active_awaiting_free"),
                          block(0x7f0003200000, 10 * MIB, "inactive"), block(0x7f0003c00000, 4 * MIB, "inactive")]}
    trace = [{"action": "alloc", "addr": 0x7f0000000000, "size": 16 * MIB, "stream": 0, "frames": shared, "time_us": 5},
             {"action": "oom", "device_free": 3 * MIB, "size": 20 * MIB, "stream": 0, "frames": shared, "time_us": 9}]
    return {"segments": [segment], "device_traces": [[], trace], "allocator_settings": {
        "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0}}


def oldest():
    return [{"device": 0, "address": 4096, "total_size": 2 * MIB, "allocated_size": MIB, "active_size": MIB,
             "stream": 7, "segment_type": "small", "blocks": [
                 {"size": MIB, "state": "active_allocated",
                  "history": [{"addr": 4096, "real_size": MIB, "frames": ATTENTION}]},
                 {"size": MIB, "state": "inactive"}]}]


def main():
    for name, content, protocol in (("snapshot-2", newest(), 4), ("snapshot-1", oldest(), 2)):
        (HERE / (name + ".pickle")).write_bytes(pickle.dumps(content, protocol=protocol))


main()
