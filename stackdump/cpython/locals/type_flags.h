// Py_TPFLAGS_*_SUBCLASS of CPython's basic types; that of str is kUnicode.
#pragma once

#include <cstdint>

namespace xpurun::stackdump {

inline constexpr uint64_t kLong = uint64_t{1} << 24;
inline constexpr uint64_t kList = uint64_t{1} << 25;
inline constexpr uint64_t kTuple = uint64_t{1} << 26;
inline constexpr uint64_t kBytes = uint64_t{1} << 27;
inline constexpr uint64_t kDict = uint64_t{1} << 29;

}  // namespace xpurun::stackdump
