// Libraries that look up the functions of CUDA and NCCL themselves, by dlsym() with the handle of a library,
// pass by the exported names of this library. XLA, below JAX, is one. bind_lookups() lets the dlsym() of one
// such library find the hooks; dlsym() of everybody else stays as it is. Takes the loader's lock.
#pragma once

namespace xpurun::preload {

// `file`: the name of a loaded library, without its folder. False if no such library is loaded, or it does
// not import dlsym().
bool bind_lookups(const char* file);

}  // namespace xpurun::preload
