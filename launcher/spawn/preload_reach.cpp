#include "launcher/spawn/preload_reach.h"

#include "common/base/io.h"

#include <cstring>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

std::string preload_obstacle(const std::string& program) {
  struct stat st {};
  if (::stat(program.c_str(), &st) != 0) {
    return {};
  }
  if (((st.st_mode & S_ISUID) != 0 && st.st_uid != ::geteuid()) ||
      ((st.st_mode & S_ISGID) != 0 && st.st_gid != ::getegid())) {
    return "set-user-id or set-group-id program: the loader ignores LD_PRELOAD";
  }
  const auto fd = base::open_read(program);
  Elf64_Ehdr header{};
  if (!fd || ::pread(fd->get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return {};
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) {
    return "not an x86-64 program";
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
    if (::pread(fd->get(), &segment, sizeof segment, at) != static_cast<ssize_t>(sizeof segment)) {
      return {};
    }
    if (segment.p_type == PT_INTERP) {
      return {};
    }
  }
  return "statically linked program: there is no loader to preload with";
}

}  // namespace xpurun::launcher
