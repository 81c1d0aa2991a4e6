// Calls Python functions where CPython drops exceptions, as it does for gc.callbacks. A signal that comes
// during a collection is handled at the first bytecode afterwards, which is our callback's: what the
// program's handler raises there would be lost.
#pragma once

// A PyCFunction (METH_VARARGS) whose `self` is the function to call; both are PyObject*. Returns None. What
// the function raises in the main thread is raised again where the interpreter goes on. GIL held.
extern "C" void* xpurun_shielded(void* self, void* arguments);
