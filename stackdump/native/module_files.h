// ModuleFiles: the places to search for the ELF files of a process.
#pragma once

#include "common/base/ids.h"

#include <cstdint>
#include <elf.h>
#include <map>
#include <string>
#include <vector>

namespace xpurun::stackdump {

// The facts about an image that a snapshot stores, because the file may be missing when the snapshot is read.
struct ModuleFacts {
  std::string build_id;
  std::vector<Elf64_Phdr> segments;
};

// Search places for the files of one process.
struct ModuleFiles {
  base::Pid pid = 0;                         // use its root and map_files; 0: no such process on this host
  std::string sysroot;                       // searched first; empty: /
  std::string symbols;                       // directory of files, by name or below .build-id/; may be empty
  std::string program;                       // of a core file: this file is program_path; may be empty
  std::string program_path;                  // the program's path in the process
  int64_t core_ns = 0;                       // of a core file: UTC time of its last write; 0: no core file
  std::map<std::string, ModuleFacts> facts;  // by path; with pid 0, only files that match are accepted
};

}  // namespace xpurun::stackdump
