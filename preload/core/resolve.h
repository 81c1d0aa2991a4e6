// Finds vendor functions in the libraries that the program has loaded. Any thread; may take the loader's
// lock, so results are kept by the callers.
#pragma once

#include "common/wire/api.h"

namespace xpurun::preload {

// The function that a call would have reached without this library; nullptr if no loaded library has one.
void* find_real(wire::Api api);

// The function of that name in the loaded library whose file name begins with `library_prefix`, e.g.
// "libcudart.so"; nullptr if there is none. Finds libraries that were opened with RTLD_LOCAL as well.
void* find_in_library(const char* library_prefix, const char* name);

// RTLD_NEXT first, then find_in_library(). Never leaves an error for the program's own dlerror().
void* find_function(const char* library_prefix, const char* name);

// The status "not supported" in the numbering of the function's library: the result of a call whose function
// no library provides.
int missing_result(wire::Api api);

}  // namespace xpurun::preload
