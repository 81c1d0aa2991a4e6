// Finds vendor functions in the libraries that the program has loaded. Any thread. May take the loader's
// lock, so callers cache the results.
#pragma once

#include "common/wire/api.h"

namespace xpurun::preload {

// The function that a call would reach without this library; nullptr if no loaded library has it.
void* find_real(wire::Api api);

// The function `name` in the loaded library whose file name starts with `library_prefix`, e.g.
// "libcudart.so"; nullptr if there is none. Also finds libraries that were opened with RTLD_LOCAL.
void* find_in_library(const char* library_prefix, const char* name);

// RTLD_NEXT first, then find_in_library(). Leaves no error for the program's own dlerror().
void* find_function(const char* library_prefix, const char* name);

// "Not supported" in the status codes of the function's library: the result of a call whose function no
// library provides.
int missing_result(wire::Api api);

}  // namespace xpurun::preload
