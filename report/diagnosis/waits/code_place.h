// The owner of a frame's code, and a thread's position in the user's code. Users look for their own line, not
// for the line in threading.py or torch/distributed that it called.
#pragma once

#include "common/model/stack_snapshot.h"
#include "common/model/verdict.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class CodeOwner {
  user,       // everything else
  package,    // installed in site-packages or dist-packages; may be the user's
  framework,  // the standard library, torch, jax and the like: never a culprit by itself
};

CodeOwner owner_of(std::string_view file);

// "pkg.Class.method" -> "method"
std::string_view last_component(std::string_view qualified);

// Number of innermost frames inside the innermost non-framework frame, that is, the frames which that code
// called. All frames if no Python frame is the user's.
size_t called_frames(const std::vector<model::Frame>& frames);

// The innermost line of the user's code; else of an installed package; else the innermost Python frame; else
// the innermost native function outside libc and the libraries of MPI. Empty function if there is nothing to
// name. `callee` is the function that the line calls, from the interpreter's column table or from the next
// frame.
model::CodeLocation place_of(const std::vector<model::Frame>& frames);

// The same with the path or the peer of the call that the thread is in.
model::CodeLocation place_with_target(const model::ThreadStack& thread);

// A native function of the program: of its executable, or with a line of source that is not a distribution's.
bool is_of_the_program(const model::Frame& frame);

// In a primitive of multiprocessing, which processes share.
bool in_multiprocessing(const std::vector<model::Frame>& frames);

// The thread runs Python code.
bool runs_python(const model::ThreadStack& thread);

// The interpreter is ending: what its threads do then says nothing about the program.
bool is_finalising(const model::ThreadStack& thread);

// Without the innermost frames of abort() and of what calls it (std::terminate, malloc's checks): they are
// the same for every abort. All frames if there is nothing else.
std::vector<model::Frame> without_abort(const std::vector<model::Frame>& frames);

// The innermost native frame that names a function, e.g. "clock_nanosleep (libc.so.6)"; empty if none.
std::string innermost_native(const std::vector<model::Frame>& frames);

}  // namespace xpurun::report
