"""Reports an exception, or a call that ends the process, to the supervisor. sitecustomize.py reads it on demand.

A report is one message over the supervisor's socket: a notice (common/wire/notice.h) followed by JSON
(common/model/exception.h). The kernel keeps the message however the process ends, and there is no reply.

Imports only modules built into the interpreter, because a json.py or socket.py of the user must not run here.
"""
import sys
import time

settings = globals()["settings"]  # given by sitecustomize.py

MAGIC = 0x4E525058
VERSION = 1
PYTHON_NOTICE = 4
IS_PYTHON = 1
MOST_BYTES = 64 * 1024
MOST_LINKS = 8  # exceptions in a chain
MOST_SOURCE = 200  # characters of a line
MOST_LINES = 200000  # of a source file that is read for such a line
# Variables that identify a rank, for the case that it ends before the supervisor finds it. The names are
# those of common/wire/identity.h.
IDENTITY = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS",
            "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_RANK", "PMI_RANK",
            "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK",
            "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_RANKID", "PALS_LOCAL_RANKID")
PATIENCE_S = 0.5  # for a socket whose queue is full

SIGNS = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def text_of(value):
    return "".join(SIGNS.get(c) or (c if c >= " " else "\\u%04x" % ord(c)) for c in value)


def to_json(value):
    if isinstance(value, dict):
        return "{" + ",".join('"' + key + '":' + to_json(item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(to_json, value)) + "]"
    if isinstance(value, int):
        return str(int(value))
    return '"' + text_of(str(value)) + '"'


def cut(text, most):
    """The start and the end of a long text."""
    if len(text) <= most:
        return text
    half = most // 2
    return text[:half] + " [...] " + text[-half:]


def name_of(kind):
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else "%s.%s" % (module, kind.__qualname__)


def message_of(value):
    """The message as in a traceback, with the notes of add_note()."""
    try:
        text = str(value)
    except Exception:
        text = "<exception str() failed>"
    for note in getattr(value, "__notes__", None) or ():
        text += "\n" + str(note)
    return text


class Sources:
    """Lines of source files, each file read once."""

    def __init__(self):
        self.wanted = {}
        self.lines = {}

    def want(self, file, line):
        self.wanted.setdefault(file, set()).add(line)

    def read(self):
        for file, wanted in self.wanted.items():
            if file.startswith("<"):
                continue
            try:
                last = min(max(wanted), MOST_LINES)
                with open(file, encoding="utf-8", errors="replace") as stream:
                    for number, text in enumerate(stream, 1):
                        if number in wanted:
                            self.lines[file, number] = text.strip()[:MOST_SOURCE]
                        if number >= last:
                            break
            except Exception:
                pass


def place_of(code, line):
    return {"file": code.co_filename, "line": line or 0,
            "function": getattr(code, "co_qualname", None) or code.co_name}


def frames_of(traceback):
    out = []
    while traceback is not None:
        out.append(place_of(traceback.tb_frame.f_code, traceback.tb_lineno))
        traceback = traceback.tb_next
    return out


def callers_of(frame):
    out = []
    while frame is not None:
        out.append(place_of(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return out[::-1]


def largest_free_block(message):
    """Bytes that PyTorch's allocator has free in one piece, after CUDA out of memory; 0 if unknown. Asks no GPU."""
    if not message.startswith("CUDA out of memory"):
        return 0
    try:
        cuda = sys.modules["torch"].cuda
        device = cuda.current_device()
        return max([block["size"] for part in cuda.memory_snapshot() if part["device"] == device
                    for block in part["blocks"] if block["state"] == "inactive"], default=0)
    except Exception:
        return 0


def look_at_memory(message):
    """Unless PyTorch has told that it found no memory (xpurun_memory.py): the frames still hold what they held."""
    try:
        if settings["is_rank"] and message.startswith(("CUDA out of memory", "[enforce fail at alloc_cpu.cpp")):
            settings["part"]("xpurun_memory")["looks"].is_full()
    except Exception:
        pass


def chain_of(value):
    """The exception; then those that it was raised from or during, and the members of a group."""
    links = []
    seen = set()
    waiting = [("", value)]
    while waiting and len(links) < MOST_LINKS:
        relation, value = waiting.pop(0)
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        message = message_of(value)
        links.append({"relation": relation, "type": name_of(type(value)), "message": message,
                      "frames": frames_of(value.__traceback__)})
        look_at_memory(message)
        largest = largest_free_block(message)
        if largest:
            links[-1]["largest_free"] = largest
        if value.__cause__ is not None:
            waiting.append(("cause", value.__cause__))
        elif value.__context__ is not None and not value.__suppress_context__:
            waiting.append(("context", value.__context__))
        for member in getattr(value, "exceptions", None) or () if relation != "member" else ():
            if isinstance(member, BaseException):
                waiting.append(("member", member))
    return links


def shortened(links, most_text, most_frames):
    out = []
    for link in links:
        frames = link["frames"]
        left_out = max(0, len(frames) - most_frames)
        if left_out:
            first = most_frames // 2
            frames = frames[:first] + frames[first + left_out:]
        out.append({**link, "message": cut(link["message"], most_text), "frames": frames, "left_out": left_out})
    return out


def with_sources(links):
    sources = Sources()
    for link in links:
        for frame in link["frames"]:
            sources.want(frame["file"], frame["line"])
    sources.read()
    for link in links:
        link["frames"] = [{**f, "source": sources.lines.get((f["file"], f["line"]), "")} for f in link["frames"]]
    return links


def encoded(record, chain):
    """The record as bytes, with as much of the chain as fits into a message."""
    most_text, most_frames = 16 * 1024, 64
    while True:
        links = with_sources(shortened(chain, most_text, most_frames))
        data = to_json({**record, "chain": links}).encode("utf-8", "replace")
        if len(data) <= MOST_BYTES or most_frames < 2:
            return data
        most_text, most_frames = most_text // 2, most_frames // 2
        chain = chain[:max(1, len(chain) * 2 // 3)]


def send(data):
    import _socket
    from posix import getpid
    header = b"".join((
        MAGIC.to_bytes(4, sys.byteorder), VERSION.to_bytes(2, sys.byteorder), PYTHON_NOTICE.to_bytes(2, sys.byteorder),
        IS_PYTHON.to_bytes(4, sys.byteorder), getpid().to_bytes(4, sys.byteorder), bytes(4 * 4), bytes(2 * 8),
        time.monotonic_ns().to_bytes(8, sys.byteorder), bytes(8)))
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        connection.setblocking(False)
        end = time.monotonic() + PATIENCE_S
        # connect and send fail while the queue is full, for example when all ranks end at once.
        for call, what in ((connection.connect, settings["socket"]), (connection.send, header + data)):
            while True:
                try:
                    call(what)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        return
                    time.sleep(0.002)
    finally:
        connection.close()


def identity():
    from posix import environ
    if not settings["is_rank"]:
        return {}
    return {name: environ[name.encode()].decode("utf-8", "replace") for name in IDENTITY if name.encode() in environ}


def record_of(kind, thread):
    import _thread
    from posix import getppid
    name = getattr(thread, "name", None)
    if name is None:
        name = "MainThread"
        threading = sys.modules.get("threading")
        active = getattr(threading, "_active", {}).get(_thread.get_ident())
        name = getattr(active, "name", name)
    return {"schema": "xpurun.exception/1", "identity": identity(), "kind": kind, "thread": cut(name, 200),
            "tid": getattr(_thread, "get_native_id", int)(), "wall_ns": time.time_ns(), "code": -1,
            "parent": getppid()}


def tell_exception(kind, value, thread):
    send(encoded(record_of(kind, thread), chain_of(value)))


def tell_exit(kind, status, frame):
    record = record_of(kind, None)
    if status is None:
        record["code"] = 0
    elif isinstance(status, int):
        record["code"] = int(status) & 0xFF
    else:
        record["code"] = 1
    text = "" if status is None or isinstance(status, int) else message_of(status)
    link = {"relation": "", "type": "SystemExit", "message": text, "frames": callers_of(frame)}
    # sys.exit() in an except block: the handled exception is the reason, as in torch.multiprocessing.spawn.
    handled = sys.exc_info()[1]
    chain = [link] + ([] if handled is None else chain_of(handled))
    if handled is not None:
        chain[1]["relation"] = "context"
    send(encoded(record, chain))
