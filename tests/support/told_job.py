"""The test's side of tests/e2e/jobs/stand_in.py: sends every rank of a job its commands, and receives the results."""

import socket
import threading

STEP_S = 0.1


class ToldJob:
    def __init__(self, path, ranks, seconds=120):
        """`ranks`: the numbers of all that the test directs; `seconds`: how long any answer may take."""
        self.path = path
        self.ranks = ranks
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.settimeout(seconds)
        self.listener.bind(str(path))
        self.listener.listen(len(ranks))
        self.streams = {}
        self.pids = {}
        self.steps = 0
        self.pausing = threading.Event()
        self.thread = None

    def meet(self):
        """Waits for all ranks; then they train."""
        while len(self.streams) < len(self.ranks):
            connection, _ = self.listener.accept()
            connection.settimeout(self.listener.gettimeout())
            stream = connection.makefile("rw")
            connection.close()
            rank, pid = map(int, stream.readline().split())
            self.streams[rank], self.pids[rank] = stream, pid
        self.train()

    def tell(self, word, ranks=None, answer=True):
        ranks = self.ranks if ranks is None else ranks
        for rank in ranks:
            self.streams[rank].write(word + "\n")
            self.streams[rank].flush()
        for rank in ranks if answer else ():
            heard = self.streams[rank].readline()
            if heard != "done\n":
                raise AssertionError(f"rank {rank} answers {heard!r} to {word!r}")

    def train(self):
        """Step after step, all ranks together, until the next command."""
        def steps():
            while not self.pausing.wait(STEP_S):
                self.tell(f"step {self.steps}")
                self.steps += 1
        self.pausing.clear()
        self.thread = threading.Thread(target=steps, daemon=True)
        self.thread.start()

    def pause(self):
        self.pausing.set()
        self.thread.join()

    def stuck(self, rank):
        """One rank is away, the others wait for it."""
        self.pause()
        self.tell("stuck", [rank])

    def go_on(self, rank):
        self.tell("go on", [rank])
        self.train()

    def fail(self, rank):
        """An exception; the others wait."""
        self.pause()
        self.tell("raise", [rank], answer=False)

    def break_connections(self, ranks):
        """As when a rank has died: the others see the ends of their connections."""
        self.tell("break", ranks, answer=False)

    def end(self, ranks=None):
        self.pause()
        self.tell("end", ranks, answer=False)

    def output(self, ranks):
        """All lines that the ranks print, sorted; the same under every supervisor."""
        return sorted([f"rank {r} step {s}" for r in ranks for s in range(self.steps)] +
                      [f"rank {r} ends" for r in ranks])

    def close(self):
        self.pausing.set()
        if self.thread:
            self.thread.join(1)
        self.listener.close()
        for stream in self.streams.values():
            stream.close()
