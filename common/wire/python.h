// What the preload library, its Python bootstrap (preload/python/) and the supervisor agree on. The bootstrap
// is Python source: a name or a number that changes here changes there too (tests/e2e/test_python.py would
// fail).
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stddef.h>

namespace xpurun::wire {

// The option --python-hooks for the processes of the job: "off" keeps the bootstrap out.
inline constexpr char kPythonHooksEnv[] = "XPURUN_PYTHON_HOOKS";

// From the preload's constructor to the bootstrap of the same process, which removes the variable. Letters:
// s: PYTHONPATH was set before our directory was put in front (then without s it was not);
// r: a launcher's variables make this process a rank.
inline constexpr char kPythonStateEnv[] = "XPURUN_PYTHON";
inline constexpr char kPythonPathWasSet = 's';
inline constexpr char kPythonIsRank = 'r';
inline constexpr char kPythonStateNone = '-';

// Directory of the bootstrap beside the preload library.
inline constexpr char kPythonDirectory[] = "python";

// Longest JSON text behind a notice of kind python. One record of a SOCK_SEQPACKET socket must hold the text.
inline constexpr size_t kMostPythonBytes = 64 * 1024;

}  // namespace xpurun::wire
