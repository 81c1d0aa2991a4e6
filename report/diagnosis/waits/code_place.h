// Whose code a frame is, and where in the user's code a thread stands. People look for their own line, not
// for the one in threading.py or torch/distributed that it called.
#pragma once

#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class CodeOwner {
  user,       // anything not below
  package,    // installed in site-packages or dist-packages: may be the user's, may be anybody's
  framework,  // the standard library, torch, jax and the like: never to blame by itself
};

CodeOwner owner_of(std::string_view file);

// "pkg.Class.method" -> "method"
std::string_view last_component(std::string_view qualified);

// Number of innermost frames that stand inside the innermost frame of code that is no framework's: what that
// code called. All frames if no Python frame is the user's.
size_t called_frames(const std::vector<model::Frame>& frames);

// The innermost line of the user's code; else of an installed package's; else the innermost Python frame;
// else the innermost native function outside libc. Empty function if there is nothing to name. `callee` is
// what that line calls, from the interpreter's column table or from the next frame.
model::CodeLocation place_of(const std::vector<model::Frame>& frames);

// The innermost native frame that names a function, e.g. "clock_nanosleep (libc.so.6)"; empty if none.
std::string innermost_native(const std::vector<model::Frame>& frames);

}  // namespace xpurun::report
