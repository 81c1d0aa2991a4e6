// Reads CPython objects of another process: strings and code objects. Lengths are checked before any
// allocation; garbage yields nothing.
#pragma once

#include "stackdump/cpython/offsets/offsets.h"
#include "stackdump/memory/remote_memory.h"

#include <string>
#include <vector>

namespace xpurun::stackdump {

// Py_TPFLAGS_UNICODE_SUBCLASS
inline constexpr uint64_t kUnicode = uint64_t{1} << 28;
inline constexpr uint64_t kException = uint64_t{1} << 30;  // Py_TPFLAGS_BASE_EXC_SUBCLASS
// The object of a bound method, also of a type in C.
inline constexpr Addr kMethodSelf = 24;
// Tag bits of references in frames, from 3.14 on.
inline constexpr uint64_t kTagBits = 3;

// A str as UTF-8 (all kinds, compact or legacy); lone surrogates become U+FFFD.
std::optional<std::string> read_unicode(RemoteMemory& memory, Addr object, const Offsets& offsets,
                                        size_t limit = 4096);
// The content of a bytes object.
std::optional<std::string> read_bytes_object(RemoteMemory& memory, Addr object, const Offsets& offsets,
                                             size_t limit);

struct CodeObject {
  std::string name;  // co_qualname where the version has it
  std::string filename;
  std::string line_table;
  int first_line = 0;
  Addr instructions = 0;     // address of the first instruction, >= 3.11
  std::vector<Addr> copies;  // free-threaded builds: starts of the per-thread bytecode copies, by number
};

// Code of xpurun's bootstrap (preload/python), which is no part of the program: such frames are not shown.
inline bool is_ours(const CodeObject& code) {
  return code.filename.starts_with("<xpurun");
}

std::optional<CodeObject> read_code_object(RemoteMemory& memory, Addr object, const Offsets& offsets);

}  // namespace xpurun::stackdump
