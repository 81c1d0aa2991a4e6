"""Starting jobs under xpurun, with a time limit for each, and reading what xpurun says with the time of each line."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PYTHON = os.environ.get("XPURUN_TEST_PYTHON", "python3")
PROBE = "import json, torch; print(json.dumps([torch.__version__, torch.cuda.device_count(), " \
        "torch.cuda.get_device_name(0) if torch.cuda.is_available() else '']))"
VERDICT = re.compile(r"^xpurun: ((?:(?:hang|crash|exit|exception):|the job has been .* slower).*)")
SUSPECTED = re.compile(r"^xpurun: stall: (.*)")


def stages_of(ranks):
    """Pipeline stages of a job with two tensor ranks."""
    return 2 if ranks >= 4 else 1


class Machine:
    """What this machine has."""

    def __init__(self, xpurun, scratch, ranks=0):
        done = subprocess.run([PYTHON, "-c", PROBE], stdout=subprocess.PIPE, text=True, check=True)
        self.torch, self.gpus, self.gpu = json.loads(done.stdout)
        self.xpurun, self.scratch = str(xpurun), scratch
        self.ranks = ranks or (max(4, self.gpus) if self.gpus else 8)
        # Of jobs whose times matter: a GPU for each rank.
        self.timed_ranks = min(self.ranks, max(2, self.gpus)) if self.gpus else self.ranks
        self.ports = set()

    def port(self):
        """A free port, which no job of this machine got before."""
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                found = probe.getsockname()[1]
            if found not in self.ports:
                self.ports.add(found)
                return found

    def torchrun(self, directory, ranks, program, *arguments):
        command = [PYTHON, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks), "--master_port",
                   str(self.port())]
        if self.torch.startswith("1."):  # which needs a directory for logs
            command += ["-r", "1", "-t", "1", "--log_dir", str(directory / "log")]
        return command + [str(HERE / program), *map(str, arguments)]

    def training(self, directory, ranks, *arguments):
        """The command of a job of train.py."""
        grid = ("--pipeline", stages_of(ranks), "--dir", directory)
        return self.torchrun(directory, ranks, "train.py", *grid, *arguments)

    def environment(self):
        env = dict(os.environ, PYTHONUNBUFFERED="1", OMP_NUM_THREADS="1", NCCL_NVLS_ENABLE="0", PYTHONPATH=str(HERE),
                   PYTHONDONTWRITEBYTECODE="1")
        for name, value in (("NCCL_SOCKET_IFNAME", "lo"), ("NCCL_IB_DISABLE", "1"), ("GLOO_SOCKET_IFNAME", "lo")):
            env.setdefault(name, value)
        return env

    def describe(self):
        what = f"{self.gpus}×{self.gpu}" if self.gpus else f"no GPU, {os.cpu_count()} cores"
        return f"{what}, torch {self.torch}, {self.ranks} ranks"


class Job:
    """A running command; output.txt of its directory has what it prints."""

    def __init__(self, machine, directory, command):
        self.directory, self.lines = directory, []
        self.output = open(directory / "output.txt", "w", encoding="utf-8")
        self.process = subprocess.Popen(command, cwd=directory, env=machine.environment(), stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("xpurun: "):
                self.lines.append((time.time(), line.rstrip()))
            self.output.write(line)
            self.output.flush()

    def wait(self, seconds):
        """Exit status, None at the time limit: a second SIGINT makes xpurun kill all its processes, in any session."""
        status = None
        for patience, number in ((seconds, signal.SIGINT), (4, signal.SIGINT), (8, signal.SIGKILL), (10, None)):
            try:
                ended = self.process.wait(max(patience, 0.1))
                status = ended if patience == seconds else None
                break
            except subprocess.TimeoutExpired:
                if number is not None:
                    self.process.send_signal(number)
        self.reader.join(5)
        return status

    def first(self, pattern, since):
        """(wall time, text) of the first such line of xpurun after that moment."""
        for when, line in self.lines:
            if when >= since and (found := pattern.match(line)):
                return when, found[1]
        return None, ""


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
