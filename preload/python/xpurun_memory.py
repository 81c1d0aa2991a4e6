"""Looks at who holds the memory of this rank: the blocks of PyTorch's GPU allocator, joined to the tensors that
Python's garbage collector knows, tensors on the CPU, and, in a window of steps, the Python lines that have allocated.

xpurun_stages.py reads this file at the first look. A look is made at the end of a step, by the thread that trains, or
when PyTorch's allocator reports that a GPU is full. It asks the allocator and changes nothing. The result is a message
to the supervisor (schema xpurun.memory/1, common/model/memory.h), so it is complete however the process ends. Errors in
here are counted and have no other effect.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

exceptions = settings["part"]("xpurun_exceptions")
owners = settings["part"]("xpurun_memory_owners")
shared = settings["part"]("xpurun_segment")
segment = shared["segment"]
now = time.monotonic_ns

MOST_HOLDERS = 160
MOST_BYTES = 60 * 1000  # of a message
MOST_FRAMES = 24
MOST_FULL = 4  # looks at a full GPU, for programs that catch the exception and go on
FULL_APART_NS = 10 * 1000 * 1000 * 1000
WORKSPACES = (8519680, 33554432)  # cuBLAS's own, bytes; the second one on Hopper
MOST_WORKSPACES = 2  # blocks of a size that count as such
ACTIVE, PENDING = "active_allocated", ("active_pending_free", "active_awaiting_free")
PINNED_BYTES = 1 << 20  # smaller tensors are not asked whether they are pinned
MOST_ASKED = 64


class Place:
    """Interned frames of one look."""

    def __init__(self):
        self.index = {}
        self.list = []

    def of(self, file, line, function):
        key = file, line, function
        known = self.index.get(key)
        if known is None:
            known = self.index[key] = len(self.list)
            self.list.append({"file": file, "line": line, "function": function})
        return known


class Look:
    """What is held now. `base`: bytes by device, category and name at the begin of the window."""

    def __init__(self, torch):
        self.places = Place()
        self.holders = {}  # by device, category, name, site and stream: [count, bytes]
        self.devices = {}  # by name
        self.errors = 0
        tensors = owners["Owners"](torch)
        self.errors += tensors.errors
        self.add_cpu(tensors)
        cuda = torch.cuda
        if cuda.is_initialized():
            self.add_gpus(cuda, tensors)

    def add(self, device, category, name, size, site=(), stream=0, count=1):
        key = device, category, name, site, stream
        known = self.holders.get(key)
        if known is None:
            self.holders[key] = [count, size]
        else:
            known[0] += count
            known[1] += size

    def add_cpu(self, tensors):
        asked = 0
        total = 0
        for one in tensors.on("cpu"):
            category = one.category
            if category == "tensors" and one.size >= PINNED_BYTES and asked < MOST_ASKED:
                asked += 1
                category = one.kind_of_host_memory()
            total += one.size
            self.add("cpu", category, one.name, one.size)
        self.devices["cpu"] = {"name": "cpu", "allocated": total}

    def add_gpus(self, cuda, tensors):
        try:
            segments = cuda.memory_snapshot(include_traces=False)
        except TypeError:  # before torch 2.11
            segments = cuda.memory_snapshot()
        for part in segments:
            name = "cuda:%d" % part["device"]
            if name not in self.devices:
                self.devices[name] = self.device_of(cuda, part["device"], name)
            self.add_segment(part, name, tensors)
        for name, device in self.devices.items():
            if "total" in device:
                # The context, NCCL's buffers, other libraries, and other processes on this GPU.
                outside = device["total"] - device["free"] - device["reserved"]
                if outside > 0:
                    self.add(name, "outside", "", outside)

    def device_of(self, cuda, index, name):
        stats = cuda.memory.memory_stats_as_nested_dict(index)
        allocated = stats["allocated_bytes"]["all"]
        free, total = cuda.mem_get_info(index)
        return {"name": name, "total": total, "free": free, "reserved": stats["reserved_bytes"]["all"]["current"],
                "allocated": allocated["current"], "peak": allocated["peak"], "unused": 0, "largest": 0,
                "workspaces": {}, "expandable": 0}

    def add_segment(self, part, name, tensors):
        device = self.devices[name]
        device["expandable"] |= int(bool(part.get("is_expandable")))
        stream = part.get("stream", 0)
        in_graph = tuple(part.get("segment_pool_id") or (0, 0)) != (0, 0)
        address = part["address"]
        for block in part["blocks"]:
            begin = block.get("address", address)
            size = block["size"]
            address = begin + size
            state = block["state"]
            if state == ACTIVE:
                owner = tensors.in_block(name, begin, size)
                site = self.site_of(block)
                if owner is not None:
                    self.add(name, owner.category, owner.name, size, site, stream)
                elif in_graph:
                    self.add(name, "graphs", "", size, site, stream)
                else:
                    self.add(name, self.category_of(block, device, tensors), "", size, site, stream)
            elif state in PENDING:
                self.add(name, "pending", "", size, (), stream)
            else:
                device["unused"] += size
                device["largest"] = max(device["largest"], size)
                self.add(name, "unused", "", size, (), stream)

    @staticmethod
    def category_of(block, device, tensors):
        """Of a block that no tensor of Python refers to."""
        asked = block.get("requested_size", block["size"])
        if asked in tensors.buckets:
            return "communication"
        if asked in WORKSPACES and device["workspaces"].get(asked, 0) < MOST_WORKSPACES:
            device["workspaces"][asked] = device["workspaces"].get(asked, 0) + 1
            return "workspace"
        return "activations"

    def site_of(self, block):
        frames = block.get("frames")
        if frames is None:  # torch 1.13 to 2.0
            history = block.get("history") or ()
            frames = history[-1].get("frames", ()) if history else ()
        return tuple([self.places.of(one["filename"], one["line"], one["name"]) for one in frames[:MOST_FRAMES]])

    def totals(self):
        out = {}
        for (device, category, name, _, _), (_, size) in self.holders.items():
            key = device, category, without_place(name)
            out[key] = out.get(key, 0) + size
        return out

    def record(self, base=None):
        """Holders with the most bytes first. What a holder has grown by since the begin of the window is told of the
        blocks that were allocated since then, as far as these explain it."""
        grown = {}
        if base is not None:
            for key, size in self.totals().items():
                grown[key] = max(0, size - base.get(key, 0))
        rows = []
        # Blocks with a site were allocated in the window.
        ordered = sorted(self.holders.items(), key=lambda item: (not item[0][3], -item[1][1]))
        for (device, category, name, site, stream), (count, size) in ordered:
            row = {"device": device, "category": category, "name": name, "bytes": size, "count": count}
            key = device, category, without_place(name)
            left = grown.get(key, 0)
            if left > 0:
                row["grown"] = min(left, size)
                grown[key] = left - row["grown"]
            if site:
                row["site"] = list(site)
            if stream:
                row["stream"] = stream
            rows.append(row)
        rows.sort(key=lambda row: (-max(row["bytes"], 8 * row.get("grown", 0)), row["device"], row["category"],
                                   row["name"]))
        return rows


def without_place(name):
    """The line of a function changes while it runs."""
    return name.partition(" (")[0]


def shortened(rows, most):
    """The others become one row for each device and category, so that the sums stay."""
    others = {}
    for row in rows[most:]:
        key = row["device"], row["category"]
        sums = others.setdefault(key, {"device": key[0], "category": key[1], "name": "", "bytes": 0, "count": 0,
                                       "grown": 0, "rest": 1})
        for name in ("bytes", "count", "grown"):
            sums[name] += row.get(name, 0)
    return rows[:most] + list(others.values())


def encoded(record, rows, places):
    most = MOST_HOLDERS
    while True:
        used = {}
        kept = [{**row, "site": [used.setdefault(one, len(used)) for one in row["site"]]} if "site" in row else row
                for row in shortened(rows, most)]
        text = exceptions["to_json"]({**record, "places": [places[one] for one in used], "holders": kept})
        data = text.encode("utf-8", "replace")
        if len(data) <= MOST_BYTES or most < 4:
            return data
        most = most * 2 // 3


class Window:
    """Some steps in which PyTorch's allocator, and Python's, record who allocates."""

    def __init__(self, why, steps, python):
        self.why = why
        self.steps = steps
        self.first = looks.steps
        self.begin_ns = now()
        self.peak_is_sent = False
        self.base = Look(sys.modules["torch"]).totals()
        self.history = History()
        self.traces = owners["PythonTraces"]() if python else None

    def is_over(self):
        return looks.steps - self.first >= self.steps

    def at_backward(self):
        """Most memory is held between the forward and the backward pass."""
        if self.history.is_on and not self.peak_is_sent and looks.steps > self.first:
            self.peak_is_sent = True
            looks.look("peak", {"steps": looks.steps - self.first})

    def end(self):
        steps = looks.steps - self.first
        extra = {"steps": steps, "window_us": (now() - self.begin_ns) // 1000}
        try:
            if self.traces is not None:
                self.traces.take(steps)
            if not self.history.is_taken_over:
                looks.look(self.why, extra, self.base, self.traces)
        finally:
            self.history.stop()


class History:
    """PyTorch's record of the stack of each live block. A record of the program's own is left alone."""

    def __init__(self):
        self.is_on = False
        self.is_taken_over = False  # the program has begun its own record meanwhile
        torch = sys.modules["torch"]
        memory = torch.cuda.memory
        is_enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        if not torch.cuda.is_initialized() or is_enabled is None or is_enabled():
            return
        self.real = real = memory._record_memory_history
        try:
            real("state", context="state", stacks="python", max_entries=1)
            self.is_on = True
        except Exception:
            looks.errors += 1  # an older torch
            return

        def _record_memory_history(*args, **kwargs):
            self.is_taken_over = True
            self.put_back()
            return real(*args, **kwargs)

        self.wrapper = sys.modules["functools"].wraps(real)(_record_memory_history)
        memory._record_memory_history = self.wrapper

    def put_back(self):
        memory = sys.modules["torch"].cuda.memory
        if memory._record_memory_history is self.wrapper:
            memory._record_memory_history = self.real

    def stop(self):
        if self.is_on and not self.is_taken_over:
            self.put_back()
            self.real(None)
        self.is_on = False


class Looks:
    def __init__(self):
        self.steps = 0
        self.request = 0  # the latest one of the supervisor
        self.window = None
        self.errors = 0
        self.is_busy = False
        self.full = 0  # looks at a full GPU
        self.full_ns = 0
        self.observes = False
        self.cost_ns = 0  # of the latest look

    def look(self, why, extra=None, base=None, traces=None):
        """Never from two threads at once: PyTorch's observer may be called by any."""
        if self.is_busy:
            return
        self.is_busy = True
        begin = now()
        try:
            if self.is_capturing() or self.is_unwelcome(why):
                return
            look = Look(sys.modules["torch"])
            if traces is not None:
                traces.add_to(look)
            devices = [{key: value for key, value in one.items() if key != "workspaces"}
                       for one in look.devices.values()]
            self.errors += look.errors
            rows = look.record(base)
            self.cost_ns = now() - begin
            record = {"schema": "xpurun.memory/1", "identity": exceptions["identity"](), "why": why,
                      "step": self.steps, "request": self.request, "at_ns": begin, "wall_ns": time.time_ns(),
                      "cost_us": self.cost_ns // 1000, "errors": self.errors, "devices": devices, **(extra or {})}
            exceptions["send"](encoded(record, rows, look.places.list))
        except Exception as error:
            self.failed(error)
        finally:
            self.is_busy = False
            self.cost_ns = now() - begin

    @staticmethod
    def is_capturing():
        """A CUDA graph, during which CUDA refuses many calls."""
        cuda = sys.modules["torch"].cuda
        return cuda.is_initialized() and cuda.is_current_stream_capturing()

    def is_unwelcome(self, why):
        """A snapshot copies the history that the program itself records, which may be very long."""
        torch = sys.modules["torch"]
        is_enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        is_own = self.window is not None and self.window.history.is_on
        return (why not in ("request", "out_of_memory") and not is_own and is_enabled is not None and
                torch.cuda.is_initialized() and is_enabled())

    def begin_window(self, why, steps, python):
        if steps == 0:
            self.look(why)
        elif self.window is None and not self.is_unwelcome(why):
            try:
                self.window = Window(why, steps, python)
            except Exception as error:
                self.failed(error)

    def end_window(self):
        try:
            self.window.end()
        except Exception as error:
            self.window = None
            self.failed(error)
        self.window = None

    def failed(self, error):
        if shared["is_users"](error):
            raise error
        self.errors += 1

    def observe(self):
        """Once CUDA is initialized. PyTorch calls the observer when no memory could be had, before the exception frees
        what the frames hold."""
        attach = getattr(sys.modules["torch"]._C, "_cuda_attach_out_of_memory_observer", None)
        if self.observes or attach is None:
            return
        self.observes = True
        try:
            attach(self.is_full)
        except Exception:
            pass  # another allocator

    def is_full(self, device=-1, asked=0, total=0, free=0):
        at = now()
        if self.full >= MOST_FULL or (self.full and at - self.full_ns < FULL_APART_NS):
            return
        self.full += 1
        self.full_ns = at
        self.look("out_of_memory", {"asked": int(asked), "asked_device": "cuda:%d" % device if device >= 0 else ""})

    def forget(self):
        """In a forked child."""
        self.window = None
        self.is_busy = False


looks = Looks()
segment.forgetters.append(looks.forget)
