// Puts the bootstrap's directory in front of PYTHONPATH, so that this process's Python interpreter imports
// preload/python/sitecustomize.py, which removes every trace of the change. Called once, from the
// constructor, before the interpreter reads its environment.
#pragma once

namespace xpurun::preload {

// Does nothing unless the program is a python of version 3.8 or newer that reads PYTHONPATH and imports
// `site` (no -I, -E, -S), and the hooks are on. The arguments are those of main().
void offer_python_bootstrap(int argc, char** argv);

}  // namespace xpurun::preload
