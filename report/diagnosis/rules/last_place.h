// Where a process ended, and which process of a rank failed before the rank. Pure functions.
#pragma once

#include "report/diagnosis/rule.h"

#include <string>

namespace xpurun::report {

// Whether the kernel gives an address with this signal.
bool carries_address(int signal);
// A signal that the process itself caused, as opposed to one that another process sent.
bool is_fault(int signal);

// The thread that died, if its stack was taken while xpurun's handler held it. Null for deaths without a
// notice, because an earlier dump or sample does not show where the process ended.
const model::ThreadStack* crashed_thread(const Scene& scene, const Ending& e);
// A thread that asks for the interpreter after Py_Finalize has begun is ended by pthread_exit (CPython before
// 3.14, PyThread_exit_thread), which unwinds its stack; C++ code that must not be unwound then calls
// std::terminate. Returns the outermost named function of such a thread outside libc and libstdc++; empty for
// every other end.
model::CodeLocation unwound_at_exit(const model::ThreadStack& t);
// The innermost line of the user's code, or the library; empty if unknown.
model::CodeLocation where_it_ended(const Scene& scene, const Ending& e);
// " in boom (train.py:20)" or nothing.
std::string in_place(const model::CodeLocation& where);

// The process of a rank that ended by itself shortly before the rank failed; null: none.
const Ending* helper_before(const Scene& scene, const Ending& root);
// The exception that ended a process of the rank shortly before the rank's own end; null: none.
const model::PythonException* exception_before(const Scene& scene, const Ending& root);
// How a process of a rank failed shortly before the rank, whose exception or exit may only say that the
// process is gone.
struct HelperFailure {
  base::Pid pid = 0;  // 0: none has failed
  std::string how;  // "raised ValueError: 'x' at data.py:9 (in load)", "died of SIGSEGV in load (data.py:9)"
  std::string title;  // without the place
  model::CodeLocation where;
  bool caused = false;  // the end of the rank
};
HelperFailure helper_failure(const Scene& scene, const Ending& root);

}  // namespace xpurun::report
