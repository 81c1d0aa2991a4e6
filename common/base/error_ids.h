// The ids of errors on which a caller decides. All others are for people (docs/errors, man pages).
#pragma once

namespace xpurun::base {

inline constexpr const char* kNotFound = "E-NOT-FOUND";            // a program does not exist
inline constexpr const char* kNotExecutable = "E-NOT-EXECUTABLE";  // or cannot be run
inline constexpr const char* kUsage = "E-USAGE";                   // the command line is wrong

}  // namespace xpurun::base
