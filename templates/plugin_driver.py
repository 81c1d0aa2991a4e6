"""Calls the functions of one exit plug-in with the exceptions and crashes of a run directory.

Usage: plugin_driver.py RUN_DIRECTORY FILE

The functions and their arguments are those of xpu_timer: xpu_timer_parse_python_exception(type, value, traceback,
infos) and xpu_timer_parse_cpp_exception(infos). The exception comes from another process: type, value and
traceback are built anew from its record. Prints one line of JSON for each call.
"""
import ast
import builtins
import contextlib
import io
import json
import os
import pathlib
import runpy
import signal
import sys
import traceback
import types

MOST_TEXT = 4096
MOST_CALLS = 64  # of each function
PYTHON_FUNCTION = "xpu_timer_parse_python_exception"
CPP_FUNCTION = "xpu_timer_parse_cpp_exception"


def exception_type(name):
    """The class of this name if Python has it, else one that looks like it."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    module, _, short = name.rpartition(".")
    return type(short, (Exception,), {"__module__": module or "__main__"})


def exception_value(kind, message):
    """An instance whose str() is the message."""
    for argument_of in (str, ast.literal_eval):  # KeyError shows the repr() of its argument
        try:
            value = kind(argument_of(message))
            if str(value) == message:
                return value
        except Exception:
            pass  # a class with other arguments, such as UnicodeDecodeError
    shown = type(kind.__name__, (kind,), {"__module__": kind.__module__, "__str__": lambda self: message})
    value = shown.__new__(shown)
    value.args = (message,)
    return value


def frame_at(file, function):
    """A frame of the function in that file. Its code raises, so that there is a traceback to take the frame from."""
    code = compile("raise ValueError", file, "exec").replace(co_name=function)
    try:
        exec(code, {"__name__": function})
    except ValueError as e:
        return e.__traceback__.tb_next.tb_frame
    return None


def traceback_of(frames):
    out = None
    for frame in reversed(frames):
        # Without an instruction (-1), the line number counts, and no column is marked.
        out = types.TracebackType(out, frame_at(frame["file"], frame["function"] or "?"), -1, max(frame["line"], 1))
    return out


def exception_of(record):
    """The first exception of the chain, with those that led to it as __cause__ and __context__."""
    first = previous = None
    for link in record["chain"]:
        value = exception_value(exception_type(link["type"]), link["message"])
        value = value.with_traceback(traceback_of(link["frames"]))
        if first is None:
            first = value
        elif link["relation"] == "cause":
            previous.__cause__ = value
        elif link["relation"] == "context":
            previous.__context__ = value
        previous = value
    return first


def place():
    """xpu_timer's description of the job, from the same variables."""
    return {"pod_name": os.environ.get("POD_NAME", "UNKNOWN"),
            "job_name": os.environ.get("ENV_ARGO_WORKFLOW_NAME", "UNKNOWN"),
            "ip": os.environ.get("POD_IP", "UNKNOWN")}


def python_calls(run):
    ranks = {p["pid"] for p in run["processes"] if p["role"] == "rank"}
    for record in run["exceptions"]:
        if record["kind"] == "raised" and record["pid"] in ranks and record["chain"]:
            value = exception_of(record)
            infos = {"time": record["wall_ns"] // 10**9, "rank": record["rank"], **place()}
            yield record["rank"], (type(value), value, value.__traceback__, infos)


def native_frames(directory, crash):
    try:
        stacks = json.loads((directory / crash["dump"] / f"rank-{crash['rank']}.stacks.json").read_text())
    except (OSError, ValueError):
        return
    # Frames are columns of numbers (docs/rundir.md).
    columns = {key: [int(n) for n in text.split()] for key, text in stacks["frames"].items() if key != "locals"}

    def number(key, row):
        return columns[key][row] if key in columns else 0

    def text(key, row):
        return stacks["strings"][number(key, row)]

    for thread in stacks["threads"]:
        for row in map(int, thread["frames"].split()) if thread["tid"] == crash["tid"] else ():
            if text("kind", row) == "native":
                place, begin = number("offset", row), number("begin", row)
                yield {"address": (int(text("bias", row) or "0", 16) + place) % 2**64,
                       "offset": place - begin if begin else 0, "module_offset": place,
                       "function_name": text("full_func", row) or text("func", row)}


def stack_infos(run, rank, number, at_s, frames):
    """xpu_timer's documentation has `time`, its program `timestamp`."""
    wall_s = run["started_wall_ns"] // 10**9 + int(at_s)
    return rank, ({"signal": number, "rank": rank, **place(), "time": wall_s, "timestamp": wall_s,
                   "frame_infos": frames},)


def cpp_calls(run, directory):
    ended_by_others = {p["pid"] for p in run["processes"] if p.get("death", {}).get("follower")}
    for crash in run["crashes"]:
        if crash["rank"] is not None and crash["pid"] not in ended_by_others:
            yield stack_infos(run, crash["rank"], crash["signal"], crash["at_s"], list(native_frames(directory, crash)))
    told = {crash["pid"] for crash in run["crashes"]} | ended_by_others
    for process in run["processes"]:
        number = process.get("death", {}).get("wait_status", 0) & 0x7F
        # No stack is known: the preload library announces other signals only, and SIGTERM where it has the handler.
        if process["role"] == "rank" and process["pid"] not in told and number in (signal.SIGPIPE, signal.SIGTERM):
            yield stack_infos(run, process["rank"], number, process["death"]["at_s"], [])


def call(function, arguments):
    """(status, text) of one call. What the function prints is its text unless it returns one."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            returned = function(*arguments)
    except BaseException as e:  # a SystemExit of one call does not end the others
        return "failed", "".join(traceback.format_exception_only(type(e), e)).strip()
    return "ok", (printed.getvalue() if returned is None else str(returned)).strip()


def main():
    directory, file = pathlib.Path(sys.argv[1]), sys.argv[2]
    run = json.loads((directory / "run.json").read_text())
    sys.argv = [file]

    def tell(function, rank, status, text):
        result = {"function": function, "rank": rank, "status": status, "text": text[:MOST_TEXT]}
        print("\n" + json.dumps(result), file=sys.__stdout__, flush=True)

    try:
        functions = runpy.run_path(file)
    except BaseException as e:
        tell("", None, "failed", f"cannot load it: {type(e).__name__}: {e}")
        return
    calls = {PYTHON_FUNCTION: python_calls(run), CPP_FUNCTION: cpp_calls(run, directory)}
    if not any(name in functions for name in calls):
        tell("", None, "failed", f"it has neither {PYTHON_FUNCTION} nor {CPP_FUNCTION}")
    for name, arguments_of in calls.items():
        for _, (rank, arguments) in zip(range(MOST_CALLS), arguments_of if name in functions else ()):
            tell(name, rank, *call(functions[name], arguments))


if __name__ == "__main__":
    main()
