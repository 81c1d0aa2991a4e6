"""Hosts made of network namespaces: a switch, and hosts, each with its own address, link and host name.

Everything is in namespaces that the test makes; the machine's own network is not touched. Needs root and ip(8).
Hosts have the addresses 10.77.0.1 and up; the switch, where a server can listen, has 10.77.0.254.
"""

import ctypes
import itertools
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading

SWITCH_ADDRESS = "10.77.0.254"
WIRE = pathlib.Path(__file__).with_name("slow_wire.py")
CLONE_NEWNET = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
numbers = itertools.count()


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=check)


def enter(namespace):
    """Moves the calling thread."""
    with open(f"/run/netns/{namespace}") as f:
        if libc.setns(f.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def missing():
    """Why there can be no such hosts here; empty: there can."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    try:
        with_network = Network(1)
    except (OSError, subprocess.CalledProcessError) as e:
        return f"no network namespaces here: {getattr(e, 'stderr', '') or e}"
    with_network.close()
    return ""


class Network:
    def __init__(self, hosts):
        prefix = f"xpurun-{os.getpid()}-{next(numbers)}"
        self.switch = f"{prefix}-switch"
        self.hosts = [f"{prefix}-h{n}" for n in range(hosts)]
        self.wires = {}
        try:
            self._make()
        except (OSError, subprocess.CalledProcessError):
            self.close()
            raise

    def _make(self):
        for name in (self.switch, *self.hosts):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.switch, "link", "add", "bridge0", "type", "bridge")
        ip("-n", self.switch, "address", "add", f"{SWITCH_ADDRESS}/24", "dev", "bridge0")
        ip("-n", self.switch, "link", "set", "bridge0", "up")
        for n, name in enumerate(self.hosts):
            ip("-n", self.switch, "link", "add", f"port{n}", "type", "veth", "peer", "name", "eth0", "netns", name)
            self._plug(n)

    def _plug(self, n):
        ip("-n", self.switch, "link", "set", f"port{n}", "master", "bridge0", "up")
        ip("-n", self.hosts[n], "address", "add", f"{self.address(n)}/24", "dev", "eth0")
        ip("-n", self.hosts[n], "link", "set", "eth0", "up")

    @staticmethod
    def address(n):
        return f"10.77.0.{n + 1}"

    def command(self, n, *command):
        """The command on a host: its network and its host name, h0 and so on."""
        return ["ip", "netns", "exec", self.hosts[n], "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"',
                f"h{n}", *map(str, command)]

    def on_switch(self, *command):
        return ["ip", "netns", "exec", self.switch, *map(str, command)]

    def link(self, n, up):
        """The cable of a host. Connections live on, as with a cable that is pulled."""
        ip("-n", self.switch, "link", "set", f"port{n}", "up" if up else "down")

    def slow(self, n, delay_s, loss):
        """Replaces the cable of a host, before anything uses it, by one with delay and loss in each direction.

        The kernel's netem is not everywhere; this is a program between two TAP devices. Raises OSError without TAP.
        """
        ip("-n", self.switch, "link", "delete", f"port{n}")
        self.wires[n] = subprocess.Popen(
            [sys.executable, WIRE, self.switch, f"port{n}", self.hosts[n], "eth0", str(delay_s), str(loss)],
            stdout=subprocess.PIPE, text=True)
        if self.wires[n].stdout.readline() != "ready\n":
            raise OSError("no TAP devices here")
        self._plug(n)

    def lost(self, n):
        """Packets that the slow cable of a host has dropped; the cable ends."""
        self.wires[n].send_signal(signal.SIGTERM)
        return int(self.wires[n].communicate(timeout=30)[0])

    def connect(self, address, port):
        """A connection from the switch."""
        out = []

        def work():
            try:
                enter(self.switch)
                out.append(socket.create_connection((address, port), timeout=10))
            except OSError as e:
                out.append(e)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        if isinstance(out[0], OSError):
            raise out[0]
        return out[0]

    def close(self):
        for wire in self.wires.values():
            wire.kill()
            wire.wait()
            wire.stdout.close()
        for name in (*self.hosts, self.switch):
            ip("netns", "delete", name, check=False)
