// The protocol between the preload library, its Python bootstrap (preload/python/) and the supervisor. The
// bootstrap is Python source: change names and numbers in both places (tests/e2e/test_python.py fails
// otherwise).
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stddef.h>

namespace xpurun::wire {

// The option --python-hooks as seen by the job's processes: "off" keeps the bootstrap out.
inline constexpr char kPythonHooksEnv[] = "XPURUN_PYTHON_HOOKS";

// The options --trace-python and --trace-python-min (in seconds). The bootstrap reads them; the first is
// absent if no function is traced.
inline constexpr char kTracePythonEnv[] = "XPURUN_TRACE_PYTHON";
inline constexpr char kTracePythonMinEnv[] = "XPURUN_TRACE_PYTHON_MIN";

// From the preload library's constructor to the bootstrap of the same process, which removes the variable.
// Letters:
//   s: PYTHONPATH was set before xpurun's directory was put in front; without s, it was not set;
//   r: a launcher's variables make this process a rank.
inline constexpr char kPythonStateEnv[] = "XPURUN_PYTHON";
inline constexpr char kPythonPathWasSet = 's';
inline constexpr char kPythonIsRank = 'r';
inline constexpr char kPythonStateNone = '-';

// Directory of the bootstrap, next to the preload library.
inline constexpr char kPythonDirectory[] = "python";

// Longest JSON text after a notice of kind python, in bytes. It must fit into one record of a SOCK_SEQPACKET
// socket.
inline constexpr size_t kMostPythonBytes = 64 * 1024;

}  // namespace xpurun::wire
