"""Writes traces as torch.profiler's tensorboard_trace_handler does, of a job that trains with DDP."""

import gzip
import json

BEGAN_NS = 1_795_230_915_000_000_000
STEP_US = 20_000
BYTES = 4 << 20


def events(rank, world, steps, compute_us):
    """`compute_us`: of each rank; the slowest one makes the others wait in the all-reduce of each step."""
    out, correlation = [], 0

    def add(cat, name, begin, duration, tid, **args):
        out.append({"ph": "X", "cat": cat, "name": name, "pid": 0 if cat in ("kernel", "gpu_memcpy") else 4000 + rank,
                    "tid": tid, "ts": begin, "dur": duration, "args": args})

    for step in range(steps):
        at = step * STEP_US + 0.125
        add("user_annotation", f"ProfilerStep#{step + 5}", at, STEP_US, 77)
        add("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 100, 900, 77)
        begin = at + 1200
        for name, cat, start, end, extra in (
                ("sm90_xmma_gemm_bf16", "kernel", begin, begin + compute_us[rank], {}),
                ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "kernel",
                 begin + compute_us[rank], begin + max(compute_us) + 500,
                 {"Collective name": "allreduce", "In msg nelems": BYTES // 2, "Out msg nelems": BYTES // 2,
                  "Group size": world, "dtype": "BFloat16", "Process Group Name": "0",
                  "Process Group Ranks": str(list(range(world)))}),
                ("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", begin - 150, begin - 50, {"bytes": 65536})):
            correlation += 1
            add("cuda_runtime", "cudaLaunchKernel", at + 1010 + 5 * (correlation % 3), 4, 77, correlation=correlation)
            add(cat, name, start, end - start, 20 if "nccl" in name else 7, correlation=correlation, **extra)
        add("user_annotation", "Optimizer.step#AdamW.step", at + 17_000, 1000, 77)
    return out


def write(directory, world=2, steps=12, compute_us=(6000, 6000)):
    directory.mkdir(parents=True, exist_ok=True)
    for rank in range(world):
        trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
                 "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
                 "baseTimeNanoseconds": BEGAN_NS, "traceEvents": events(rank, world, steps, compute_us)}
        path = directory / f"node0_{4000 + rank}.{BEGAN_NS}.pt.trace.json.gz"
        path.write_bytes(gzip.compress(json.dumps(trace).encode()))
