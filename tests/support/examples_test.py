"""Runs examples/ as they are: xpurun, torchrun and python3 of the PATH are the built program and Debian's torch."""

import json
import os
import shutil
import socket
import subprocess
import unittest

import xpurun_test
from xpurun_test import PROGRAM, PYTHON, SOURCE

EXAMPLES = SOURCE / "examples"
NODE = 'mount --bind "$HOSTS" /etc/hosts && hostname "$0" && exec "$@"'


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def may_make_nodes():
    done = subprocess.run(["unshare", "--uts", "--mount", "sh", "-c", NODE, "x", "true"], capture_output=True,
                          env={**os.environ, "HOSTS": "/etc/hosts"})
    return done.returncode == 0


class Case(xpurun_test.Case):
    """A directory that all nodes share, and programs in front of the PATH."""

    hang_timeout = "4"

    def setUp(self):
        super().setUp()
        self.programs = self.dir / "bin"
        self.programs.mkdir()
        self.add_program("xpurun", PROGRAM)
        self.add_program("python3", PYTHON)
        self.add_program("torchrun", PYTHON, "-m", "torch.distributed.run")
        self.hosts = self.dir / "hosts"
        self.hosts.write_text("127.0.0.1 localhost n0 n1\n")

    def add_program(self, name, *command):
        path = self.programs / name
        path.write_text(f"#!/bin/sh\nexec {' '.join(map(str, command))} \"$@\"\n")
        path.chmod(0o755)

    def env(self, **more):
        # torch 1.13 under Python 3.11 starts only with redirected, teed output.
        return super().env(**{
            "PATH": f"{self.dir}/bin:{os.environ['PATH']}:/usr/sbin", "XPURUN_HANG_TIMEOUT": self.hang_timeout,
            "XPURUN_GRACE": "3s", "PET_REDIRECTS": "1", "PET_TEE": "1", "PET_LOG_DIR": str(self.dir / "torchrun"),
            "PET_MONITOR_INTERVAL": "1", "GLOO_SOCKET_IFNAME": "lo", "PORT": str(free_port()),
            "EXAMPLES": str(EXAMPLES), "HOSTS": str(self.dir / "hosts"), "OMP_NUM_THREADS": "1",
            # Open MPI's own refusals: as root, and more ranks than cores.
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", **more})

    def run_here(self, *command, timeout=120, **env):
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=timeout, cwd=self.dir,
                              env=self.env(**env))

    def on_node(self, name, *command):
        """The command line of a command on a node of that name: the machine's network, and a separate host name."""
        return ["unshare", "--uts", "--mount", "sh", "-c", NODE, name, *map(str, command)]

    def verdicts(self):
        """{host: verdict} of all run directories that the example made."""
        found = {}
        for path in self.dir.glob("xpurun-runs/**/run.json"):
            if "nodes" not in path.parts and not path.parent.is_symlink():
                run = json.loads(path.read_text())
                found[run["host"], run["id"]] = run["verdict"]
        return found

    def check_hang(self, rank, count=1):
        """All verdicts are the same sentence, about the rank and its line."""
        verdicts = self.verdicts()
        self.assertEqual(len(verdicts), count, verdicts.keys())
        for verdict in verdicts.values():
            self.assertEqual((verdict["kind"], verdict["ranks"]), ("hang", [rank]), verdict["sentence"])
            self.assertIn("load_batch", verdict["sentence"])
        self.assertEqual(len({verdict["sentence"] for verdict in verdicts.values()}), 1, verdicts)


needs_torch = unittest.skipUnless(xpurun_test.have_torch(), "needs python3-torch")
needs_mpirun = unittest.skipIf(shutil.which("mpirun") is None, "Open MPI is not installed (Debian: openmpi-bin)")
needs_nodes = unittest.skipUnless(may_make_nodes(), "may not make namespaces for host names")
