// The requests of an x86-64 program or shared library to the dynamic loader, read from the file. The file is
// not trusted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

struct ElfDynamic {
  std::string interpreter;          // PT_INTERP; empty: a library, or statically linked
  std::vector<std::string> needed;  // DT_NEEDED
  std::string names;                // DT_STRTAB: every imported and exported name, each ended by a zero byte

  // Whether the file imports or exports this name.
  bool mentions(std::string_view name) const;
};

// Members that cannot be read are empty.
ElfDynamic read_elf_dynamic(const std::string& path);

// DT_NEEDED alone.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace xpurun::launcher
