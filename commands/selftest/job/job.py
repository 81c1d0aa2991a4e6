"""The job of `xpurun selftest`: a small data-parallel training run with one fault in it.

usage: job.py probe FILE       writes what this Python can run, as JSON
       job.py launch NAME RANKS DIR HANG_TIMEOUT cpu|gpu
                               starts the ranks and waits for them, as torchrun does
       job.py rank NAME DIR HANG_TIMEOUT cpu|gpu
                               one rank, with the fault NAME in it

torch 1.13 to the newest. torchrun itself is not used: it takes seconds to start, and its oldest versions need a
directory for logs.
"""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

TERM_TO_KILL_S = 5


def has_mpi():
    return shutil.which("mpirun") is not None and importlib.util.find_spec("mpi4py") is not None


def probe(path):
    found = {"python": sys.version.split()[0], "torch": "", "gloo": False, "nccl": False, "gpus": 0, "mpi": has_mpi(),
             "problem": ""}
    try:
        import torch
        import torch.distributed as dist
        found["torch"] = torch.__version__
        # torch before 1.14 cannot tell; its builds for Linux have gloo.
        found["gloo"] = dist.is_available() and getattr(dist, "is_gloo_available", lambda: True)()
        found["nccl"] = dist.is_available() and dist.is_nccl_available()
        # SELFTEST_GPUS=2 on a host with one GPU also tries slow jobs there; ranks that share it disturb each other.
        found["gpus"] = int(os.environ.get("SELFTEST_GPUS", torch.cuda.device_count()))
    except Exception as error:  # whatever a broken installation raises
        found["problem"] = "%s: %s" % (type(error).__name__, error)
    with open(path, "w") as file:
        json.dump(found, file)


def rank_environment(rank, ranks, port):
    env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
    # One host: what its name resolves to does not matter.
    env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return env


def end(processes):
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + TERM_TO_KILL_S
    for process in processes:
        try:
            process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def remove_cgroup(directory):
    """The one that oom-kill made, which outlives its processes."""
    try:
        with open(os.path.join(directory, "cgroup")) as file:
            os.rmdir(file.read())
    except OSError:
        pass


def launch_mpi(name, ranks, directory):
    """Open MPI refuses to run as root, or more ranks than cores, unless told; it needs no ssh on one host."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_plm="isolated",
               OMPI_MCA_rmaps_base_oversubscribe="1", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe")
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_faults.py")
    os.execvpe("mpirun", ["mpirun", "-n", ranks, sys.executable, program, name, directory], env)


def launch(name, ranks, directory, *settings):
    if name.startswith("mpi-"):
        launch_mpi(name, ranks, directory)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # Nobody else is given this port while it is bound here; rank 0 may listen on it all the same.
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("", 0))
    port = held.getsockname()[1]
    processes = []
    command = [sys.executable, __file__, "rank", name, directory, *settings]
    try:
        for rank in range(int(ranks)):
            if name == "ghost-rank" and rank == 1:
                open(os.path.join(directory, "ready-1"), "w").close()
                continue
            processes.append(subprocess.Popen(command, env=rank_environment(rank, int(ranks), port)))
        # The first failure ends the others. Ranks that end well are not missed.
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                return 1
            time.sleep(0.05)
        return int(any(process.returncode for process in processes))
    finally:
        end(processes)
        remove_cgroup(directory)


def rank(name, directory, hang_timeout_s, device):
    import training
    for module in ("collective_faults", "gpu_faults", "host_faults"):  # each adds its faults to the table
        importlib.import_module(module)
    training.run(name, training.Job(directory, float(hang_timeout_s), device == "gpu"))


if __name__ == "__main__":
    sys.exit({"probe": probe, "launch": launch, "rank": rank}[sys.argv[1]](*sys.argv[2:]))
