#include "launcher/doctor/elf_needed.h"

#include "common/base/io.h"

#include <cstring>
#include <elf.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// More than any library has; keeps a broken file from taking memory.
constexpr size_t kMostEntries = 4096;
constexpr size_t kLongestName = 256;

template <typename T>
bool read_at(int fd, uint64_t at, T& out) {
  return ::pread(fd, &out, sizeof out, static_cast<off_t>(at)) == static_cast<ssize_t>(sizeof out);
}

}  // namespace

std::vector<std::string> needed_libraries(const std::string& path) {
  std::vector<std::string> out;
  const auto file = base::open_read(path);
  Elf64_Ehdr header{};
  if (!file || !read_at(file->get(), 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return out;
  }
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  for (size_t i = 0; i < segments.size(); ++i) {
    if (!read_at(file->get(), header.e_phoff + i * sizeof(Elf64_Phdr), segments[i])) {
      return out;
    }
  }
  std::vector<Elf64_Dyn> entries;
  for (const Elf64_Phdr& segment : segments) {
    Elf64_Dyn entry{};
    for (size_t i = 0; segment.p_type == PT_DYNAMIC && i < kMostEntries; ++i) {
      if (!read_at(file->get(), segment.p_offset + i * sizeof entry, entry) || entry.d_tag == DT_NULL) {
        break;
      }
      entries.push_back(entry);
    }
  }
  uint64_t strings = 0;  // file offset of the string table, from its address
  for (const Elf64_Dyn& entry : entries) {
    for (const Elf64_Phdr& segment : segments) {
      if (entry.d_tag == DT_STRTAB && segment.p_type == PT_LOAD && entry.d_un.d_ptr >= segment.p_vaddr &&
          entry.d_un.d_ptr - segment.p_vaddr < segment.p_filesz) {
        strings = entry.d_un.d_ptr - segment.p_vaddr + segment.p_offset;
      }
    }
  }
  for (const Elf64_Dyn& entry : entries) {
    char name[kLongestName] = {};
    if (entry.d_tag == DT_NEEDED && strings != 0 &&
        ::pread(file->get(), name, sizeof name - 1, static_cast<off_t>(strings + entry.d_un.d_val)) > 0) {
      out.emplace_back(name);
    }
  }
  return out;
}

}  // namespace xpurun::launcher
