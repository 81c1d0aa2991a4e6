"""A process whose threads are in every kind of Python frame, for 3.8 and later. It prints one line of JSON with
the interpreter's own answer for each thread: its name and its frames as [function, file, line, column, end line,
end column], innermost first. After that line all threads stay still."""

import asyncio
import contextlib
import ctypes
import functools
import json
import mmap
import os
import sys
import threading
import time

FOREVER = 100000
DEEP, TOO_DEEP = map(int, os.environ.get("XPURUN_SCENE_DEPTHS", "1500,2500").split(","))
SECRETS = {"api_token": "do-not-show-this"}


class Дом:
    def ждать(self, x):
        café = "naïve"
        time.sleep(
            FOREVER
            + x
            + len(café)
        )


def key(x):
    Дом().ждать(x)


def part(x):
    return sorted([x, 2], key=key)


def gen():
    yield functools.partial(part, 1)()


def 𐐨(n):
    return 𐐨(n - 1) if n else time.sleep(FOREVER)


@contextlib.asynccontextmanager
async def held():
    await asyncio.sleep(0)
    yield 5


async def inner(n):
    async with held() as h:
        return [block(x + h) async for x in numbers(n)]


async def numbers(n):
    for i in range(n):
        yield i


def block(x):
    (lambda: time.sleep(FOREVER + x))()


async def outer():
    await asyncio.gather(inner(3))


def values(count=3, *args, flag=True, **options):
    number, negative, huge, real = 42, -7, 1 << 80, 1.5
    text, long_text, raw = "täxt\n", "x" * 500, b"\x00raw"
    items, pair, table, nothing = [1] * 7, (1, "two"), {"a": 1}, None
    api_token = SECRETS["api_token"]
    url = "https://user:hidden@host/path"
    dom = Дом()
    unique = {1, 2}
    unset = 1
    del unset

    def closure():
        return number, text

    time.sleep(FOREVER)
    return [negative, huge, real, long_text, raw, items, pair, table, nothing, api_token, url, dom, unique, closure]


def place(frame):
    code = frame.f_code
    name = getattr(code, "co_qualname", code.co_name)
    spot = [frame.f_lineno or 0, 0, 0, 0]
    if hasattr(code, "co_positions"):
        line, end, column, end_column = list(code.co_positions())[frame.f_lasti // 2]
        spot = [line or 0, 0 if column is None else column + 1, end or 0, 0 if end_column is None else end_column + 1]
    return [name, code.co_filename] + spot


def frames_of(frame):
    out = []
    while frame is not None:
        out.append(place(frame))
        frame = frame.f_back
    return out


def observe():
    time.sleep(0.5)  # by then all other threads are still
    names = {t.ident: t.name for t in threading.enumerate()}
    me = threading.get_ident()
    told = [
        {"thread_id": ident, "name": names.get(ident), "frames": frames_of(frame)}
        for ident, frame in sys._current_frames().items()
        if ident != me
    ]
    print(json.dumps({"version": sys.version.split()[0], "threads": told}), flush=True)
    time.sleep(FOREVER)


def map_images_again():
    """Maps the file of the interpreter again, as ctypes and others do: only one of the copies is alive."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line and "python3" in line}
    return [mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
            for f in (open(p, "rb") for p in paths | {"/proc/self/exe"} if os.path.isfile(p)) for _ in range(2)]


def enter_another():
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    interpreters.run_string(interpreters.create(), "import time\ndef inside(): time.sleep(%d)\ninside()" % FOREVER)


def thread(name, target, *args):
    threading.Thread(target=target, args=args, name=name, daemon=True).start()


def main():
    sys.setrecursionlimit(10000)
    threading.stack_size(64 << 20)
    thread("naïve", key, 1)
    thread("глубоко", 𐐨, DEEP)
    thread("too 𐐼eep", 𐐨, TOO_DEEP)
    thread("loop", lambda: asyncio.run(outer()))
    thread("values", values)
    kept = map_images_again()
    if os.environ.get("XPURUN_SCENE_INTERPRETERS"):
        thread("second interpreter", enter_another)
    libc = ctypes.CDLL(None)
    libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.sleep, ctypes.c_void_p(FOREVER))
    thread("observer", observe)
    list(gen())
    del kept


main()
