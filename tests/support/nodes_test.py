"""Helpers xpurun-nodes driven as a supervisor does, a real nats-server, and a raw client of it."""

import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import time

import xpurun_test

AGENT = os.environ.get("XPURUN_TEST_NODES", "")
NATS_SERVER = shutil.which("nats-server", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
MISSING = ("this build has no xpurun-nodes (libnats is not installed)" if not AGENT
           else "" if NATS_SERVER else "nats-server is not installed")
TOKEN = "of-the-test-7f3a"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class RawClient:
    """Speaks the text protocol of NATS; knows nothing of xpurun's messages."""

    def __init__(self, port, token=TOKEN, connection=None):
        self.socket = connection or socket.create_connection(("127.0.0.1", port), timeout=10)
        self.stream = self.socket.makefile("rb")
        self.stream.readline()  # INFO
        options = {"auth_token": token, "verbose": False, "pedantic": False, "lang": "test", "version": "1"}
        self.socket.sendall(b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n")
        answer = self.stream.readline().strip()
        if answer != b"PONG":
            self.close()
            raise PermissionError(answer)

    def publish(self, subject, payload):
        self.socket.sendall(f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\n")

    def subscribe(self, subject):
        self.socket.sendall(f"SUB {subject} 1\r\n".encode())

    def flush(self):
        self.socket.sendall(b"PING\r\n")
        while self.stream.readline().strip() != b"PONG":
            pass

    def message(self):
        """(subject, payload) of the next message of a subscription."""
        while line := self.stream.readline():
            words = line.split()
            if words[:1] == [b"MSG"]:
                payload = self.stream.read(int(words[-1]))
                self.stream.readline()
                return words[1].decode(), payload
            if words[:1] == [b"PING"]:
                self.socket.sendall(b"PONG\r\n")
        raise ConnectionResetError("the server has gone")

    def close(self):
        self.stream.close()
        self.socket.close()


class Agent:
    """One xpurun-nodes, and the supervisor's end of its socket."""

    def __init__(self, directory, rank, **start):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.node = start.get("node", f"n{rank}")
        self.socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                ["/bin/sh", "-c", 'exec "$1" 3<&"$2"', "sh", AGENT, str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        self.received = []
        self.input = b""
        self.send("start", **{"run": "job", "node": f"n{rank}", "node_rank": rank, "host": f"host{rank}",
                              "local_ranks": [2 * rank, 2 * rank + 1], "directory": str(self.directory),
                              "token": TOKEN, "gather_timeout_s": 60, **start})
        self.state("running")

    def send(self, kind, **fields):
        self.socket.sendall(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def state(self, phase):
        self.send("state", phase=phase, ranks=[{"rank": 1, "state": "S", "still_s": 1.5, "sequence": {"c": 7}}])

    def read(self, seconds):
        if select.select([self.socket], [], [], seconds)[0]:
            data = self.socket.recv(1 << 20)
            self.input += data
            *lines, self.input = self.input.split(b"\n")
            self.received += [json.loads(line) for line in lines]
            return bool(data)
        return True

    def wait(self, kind, condition=lambda m: True, seconds=30):
        """The next message of the kind that fulfils the condition. Earlier ones are forgotten."""
        end = time.monotonic() + seconds
        while True:
            while self.received:
                message = self.received.pop(0)
                if message["type"] == kind and condition(message):
                    return message
            left = end - time.monotonic()
            if left <= 0 or not self.read(left):
                raise AssertionError(f"{self.node}: no message {kind} within {seconds} s")

    def wait_for_elected(self, node, living, seconds=30):
        def fulfilled(message):
            alive = sorted(n["node"] for n in message["nodes"] if n["alive"])
            elected = [n["node"] for n in message["nodes"] if n["elected"]]
            return elected == [node] and alive == sorted(living)
        return self.wait("nodes", fulfilled, seconds)

    def heard(self, kind):
        """Messages of the kind that have arrived and were not waited for."""
        while self.read(0) and select.select([self.socket], [], [], 0)[0]:
            pass
        return [m for m in self.received if m["type"] == kind]

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.socket.close()


class Case(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        if MISSING:
            self.skipTest(MISSING)
        self.port = free_port()
        self.agents = []
        self.addCleanup(self._close_agents)

    def _close_agents(self):
        for agent in self.agents:
            agent.close()

    def start_server(self, *options):
        process = subprocess.Popen(
            [NATS_SERVER, "-a", "127.0.0.1", "-p", str(self.port), "-l", str(self.dir / "server.log"),
             *map(str, options or ("--auth", TOKEN))],
            cwd=self.dir, env=self.env())
        self.started.append(process)

        def answers():
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return True
            except OSError:
                return False
        self.wait_for(answers, "NATS server")
        return process

    def start_agent(self, rank, **start):
        run = start.get("run", "job")
        agent = Agent(self.dir / run / f"node{rank}", rank, **{"url": f"nats://127.0.0.1:{self.port}", **start})
        self.agents.append(agent)
        return agent

    def start_job(self, count, **start):
        agents = [self.start_agent(rank, nodes=count, **start) for rank in range(count)]
        names = [agent.node for agent in agents]
        for agent in agents:
            agent.wait_for_elected("n0", names)
        return agents

    def raw_client(self):
        client = RawClient(self.port)
        self.addCleanup(client.close)
        return client

    @staticmethod
    def kill(agent):
        agent.process.send_signal(signal.SIGKILL)
        agent.process.wait()
