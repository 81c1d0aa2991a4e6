#!/usr/bin/env python3
"""A rank whose GPU runs nothing, because its stream waits: is that rank named? Needs two GPUs.

usage: tests/gpu/idle_gpu.py XPURUN OUT_DIR [KIND...]

At step 60 rank 1's stream waits for a value in memory that nobody writes (KIND value), or for a host function that does
not return (KIND host); then both ranks call the same all_reduce. Prints a verdict per kind; exits 1 if another rank
than 1 is named or none. XPURUN_TEST_PYTHON names the Python that has torch; default: python3.
"""

import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

PYTHON = os.environ.get("XPURUN_TEST_PYTHON", "python3")
KEPT = []


def wait_for_value(torch):
    flag = torch.zeros(4, dtype=torch.int32, device="cuda")
    KEPT.append(flag)
    stream = torch.cuda.current_stream().cuda_stream
    status = ctypes.CDLL("libcuda.so.1").cuStreamWaitValue32_v2(
        ctypes.c_void_p(stream), ctypes.c_uint64(flag.data_ptr()), ctypes.c_uint32(1), ctypes.c_uint(1))
    assert status == 0, status


def wait_for_host(torch):
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: time.sleep(1e6))
    KEPT.append(function)
    stream = torch.cuda.current_stream().cuda_stream
    status = ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc(ctypes.c_void_p(stream), function, None)
    assert status == 0, status


def job(kind):
    import torch
    import torch.distributed as dist
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    weights = torch.randn(2048, 2048, device="cuda")
    for step in range(100000):
        gradient = weights @ weights
        if step == 60 and dist.get_rank() == 1:
            {"value": wait_for_value, "host": wait_for_host}[kind](torch)
        dist.all_reduce(gradient)
        if step % 10 == 0:
            gradient.sum().item()


def main():
    xpurun, out = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    wrong = 0
    for kind in sys.argv[3:] or ["value", "host"]:
        command = [xpurun, "run", "--out", str(out / kind), "--metrics-port", "off", "--hang-timeout", "10",
                   "--on-hang", "kill", "--grace", "5s", "--", PYTHON, "-m", "torch.distributed.run",
                   "--nproc-per-node", "2", "--master-port", "29577", __file__, "job", kind]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=180)
        (out / f"{kind}.txt").write_text(done.stdout)
        verdict = json.loads((out / kind / "verdict.json").read_text())
        wrong += verdict["kind"] != "hang" or verdict["ranks"] != [1]
        print(f"{kind}: status {done.returncode}; {verdict['id']} {verdict['ranks']}: {verdict['sentence']}",
              flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["job"]:
        job(sys.argv[2])
    else:
        sys.exit(main())
