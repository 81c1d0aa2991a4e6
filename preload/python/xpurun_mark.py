"""The module `xpurun` of programs that run under xpurun: step() marks the end of a training step, forward() and
backward() mark the work of a pipeline's stage on a micro-batch.

sitecustomize.py reads this file when the program imports `xpurun`. A module of the program with this name goes first.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

shared = settings["part"]("xpurun_segment")
segment, MARK, FORWARD, BACKWARD = (shared[name] for name in ("segment", "MARK", "FORWARD", "BACKWARD"))


def make_step(now, get_frame):
    def step():
        """Says that a training step of this rank ended here. Cheap, and does nothing while spans are off."""
        try:
            if segment.wants_spans():
                at = now()
                segment.step_ended()
                segment.add_span(MARK, segment.text("step"), segment.place_of(get_frame(1)), at, at)
        except Exception:
            pass

    return step


def make_job(stage, name, now, cpu_now, get_frame):
    bit = 1 << stage

    class Job:
        __slots__ = ("text", "begun")

        def __init__(self, micro_batch, chunk=None):
            self.begun = None
            try:
                self.text = "micro-batch %d" % micro_batch + ("" if chunk is None else " chunk %d" % chunk)
            except Exception:
                self.text = None

        def __enter__(self):
            try:
                if self.text is not None and segment.wants_spans():
                    state = segment.local.state
                    # The program marks a pipeline's forward passes, so nothing is inferred between the marks.
                    state.since = None
                    if not state.active & bit:
                        state.active |= bit
                        place = segment.place_of(get_frame(1))
                        self.begun = state, segment.memory, place, cpu_now(), now()
            except Exception:
                pass
            return self

        def __exit__(self, kind, value, traceback):
            begun, self.begun = self.begun, None
            if begun is None:
                return
            try:
                state, memory, place, cpu, begin = begun
                end = now()
                state.active &= ~bit
                if memory is segment.memory:
                    segment.add_span(stage, segment.text(self.text), place, begin, end, cpu_now() - cpu)
            except Exception:
                pass

    Job.__doc__ = "With it, the %s pass of a micro-batch (from 0) on this rank's stage of a pipeline." % name
    Job.__name__ = Job.__qualname__ = name
    Job.__module__ = "xpurun"
    return Job


class Loader:
    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        module.__doc__ = "What a program tells xpurun, the program that runs it."
        module.__all__ = ["backward", "forward", "step"]
        module.step = make_step(time.monotonic_ns, sys._getframe)
        clocks = time.monotonic_ns, time.thread_time_ns, sys._getframe
        module.forward = make_job(FORWARD, "forward", *clocks)
        module.backward = make_job(BACKWARD, "backward", *clocks)
        module.step.__module__ = "xpurun"
        module.step.__qualname__ = "step"


def watched(spec):
    """A folder without Python in the working directory is found too, as a namespace without an origin."""
    if spec is not None and spec.origin is not None:
        return spec
    return type(sys.__spec__)("xpurun", Loader)
