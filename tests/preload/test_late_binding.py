"""Libraries that look up CUDA's and NCCL's functions by themselves (preload/core/late_binding.h): they find the hooks
once they are bound, and nobody else does."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["XPURUN_TEST_BUILD"])
LIBRARY = BUILD / "preload" / "libxpurun_preload.so"
NCCL = BUILD / "tests" / "fakes" / "libnccl.so.2"
CALLERS = ("liblate_caller_lazy.so", "liblate_caller_now.so")

PROGRAM = """
import ctypes, json, sys
def library(path):
    it = ctypes.CDLL(path)
    for find in (it.late_find, it.late_find_by_address):
        find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    return it
def real(handle, name):
    find = ctypes.CDLL(None).dlsym
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
    return find(handle, name)
def places(caller):
    # Of each function: whether the caller finds the vendor's, by its call and by its address of dlsym.
    out = {}
    for name in (b"ncclAllReduce", b"ncclGetVersion", b"ncclNoSuchThing"):
        out[name.decode()] = [find(nccl._handle, name) == real(nccl._handle, name)
                              for find in (caller.late_find, caller.late_find_by_address)]
    return out
nccl = ctypes.CDLL(sys.argv[1])
"""
DIRECT = PROGRAM + """
bound, other = library(sys.argv[2]), library(sys.argv[3])
before = places(bound)
bind = ctypes.CDLL(None).xpurun_bind_lookups
result = [bind(sys.argv[2].rpartition("/")[2].encode()), bind(b"libnot_loaded.so"), bind(b"libc.so.6")]
print(json.dumps({"before": before, "after": places(bound), "other": places(other), "result": result}))
"""
PLUGIN = "import ctypes\ndef initialize():\n    global library\n    library = ctypes.CDLL(%r)\n"
AS_JAX = PROGRAM + """
import jax_plugins.xla_cuda13 as plugin
plugin.initialize()
print(json.dumps(places(library(sys.argv[2]))))
"""
FOUND = {"ncclAllReduce": [True, True], "ncclGetVersion": [True, True], "ncclNoSuchThing": [True, True]}
HOOKED = {**FOUND, "ncclAllReduce": [False, False]}


class LateBinding(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="xpurun-late-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def run_program(self, source, *args, **more):
        env = {key: value for key, value in os.environ.items() if not key.startswith(("XPURUN", "RANK", "LD_PRELOAD"))}
        run = subprocess.run([sys.executable, "-c", source, NCCL, *args], capture_output=True, text=True, timeout=60,
                             cwd=self.dir, env={**env, "LD_PRELOAD": str(LIBRARY), **more})
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return json.loads(run.stdout)

    def test_one_library_is_bound(self):
        for caller, other in (CALLERS, CALLERS[::-1]):
            found = self.run_program(DIRECT, *(str(BUILD / "tests" / "preload" / name) for name in (caller, other)))
            self.assertEqual(found, {"before": FOUND, "after": HOOKED, "other": FOUND, "result": [1, 0, 0]}, caller)

    def test_the_plugin_of_jax(self):
        package = self.dir / "jax_plugins" / "xla_cuda13"
        package.mkdir(parents=True)
        plugin = package / "xla_cuda_plugin.so"
        shutil.copy(BUILD / "tests" / "preload" / CALLERS[1], plugin)
        (package / "__init__.py").write_text(PLUGIN % str(plugin))
        self.assertEqual(self.run_program(AS_JAX, str(plugin), XPURUN_RUN=f"1:{os.getpid()}:0:/nobody"), HOOKED)
        self.assertEqual(self.run_program(AS_JAX, str(plugin)), FOUND)  # not a job of xpurun


if __name__ == "__main__":
    unittest.main()
