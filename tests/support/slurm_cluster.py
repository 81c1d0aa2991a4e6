"""A Slurm cluster of several nodes on one machine: munged, slurmctld and one slurmd a node, all in one directory.

Debian's slurmd is built for several on one machine (`slurmd -N`): each has its node name, port and spool directory.
Everything runs as root, so the test must.
"""

import os
import pathlib
import shutil
import socket
import subprocess

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch")
PATH = os.environ.get("PATH", "") + ":/usr/sbin"

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={directory}/munge.socket
CredType=cred/munge
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool-%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd-%n.pid
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
ReturnToService=2
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=INFINITE
"""


def reason_to_skip():
    """Empty if a cluster can be made here."""
    missing = [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing:
        return f"not installed: {' '.join(missing)} (Debian: munge slurmctld slurmd slurm-client)"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class SlurmCluster:
    """Owned by a test case, which ends its processes. All nodes are idle when the constructor returns."""

    def __init__(self, case, nodes, on_node):
        """on_node(name, *command) is the command line of a command on the node of that name."""
        self.case = case
        self.directory = pathlib.Path(case.dir, "slurm")
        self.directory.mkdir(mode=0o755)
        (self.directory / "state").mkdir()
        controller, *ports = free_ports(nodes + 1)
        host = socket.gethostname()
        lines = [f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 State=UNKNOWN"
                 for i, port in enumerate(ports)]
        self.configuration = self.directory / "slurm.conf"
        self.configuration.write_text(CONFIGURATION.format(
            host=host, controller=controller, directory=self.directory, nodes="\n".join(lines)))
        self.env = case.env(SLURM_CONF=str(self.configuration))
        self.start_munge()
        self.start("slurmctld", "-D", "-i")
        for i in range(nodes):
            self.start("slurmd", "-D", "-N", f"n{i}", on_node=on_node)
        case.wait_for(lambda: self.idle_nodes() == nodes, f"idle nodes (see {self.directory})", seconds=30)

    def start(self, program, *args, on_node=None):
        command = [shutil.which(program, path=PATH), *args]
        with open(self.directory / f"{program}{len(self.case.started)}.log", "w") as log:
            self.case.started.append(subprocess.Popen(on_node(args[-1], *command) if on_node else command, stdout=log,
                                                      stderr=log, stdin=subprocess.DEVNULL, env=self.env))

    def start_munge(self):
        key = self.directory / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.directory}/munge.socket",
                   f"--pid-file={self.directory}/munge.pid", f"--log-file={self.directory}/munge.log",
                   f"--seed-file={self.directory}/munge.seed")
        self.case.wait_for((self.directory / "munge.socket").exists, "socket of munged")

    def run(self, *command, timeout=90, **kwargs):
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, env=self.env, timeout=timeout,
                              cwd=self.case.dir, **kwargs)

    def idle_nodes(self):
        try:
            return self.run("sinfo", "--noheader", "--Node", "--format=%T", timeout=10).stdout.split().count("idle")
        except subprocess.TimeoutExpired:
            return 0
