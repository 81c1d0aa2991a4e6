#include "launcher/spawn/elf_dynamic.h"

#include "common/base/os/io.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <optional>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// More than any library has; bounds the memory for a broken file.
constexpr size_t kMostEntries = 4096;
constexpr size_t kLongestName = 4096;
constexpr uint64_t kMostNames = 64 << 20;

template <typename T>
bool read_at(int fd, uint64_t at, T& out) {
  return ::pread(fd, &out, sizeof out, static_cast<off_t>(at)) == static_cast<ssize_t>(sizeof out);
}

std::string read_text(int fd, uint64_t at, uint64_t size) {
  std::string out(size, '\0');
  const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(at));
  out.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
  return out;
}

std::vector<Elf64_Phdr> read_segments(int fd) {
  Elf64_Ehdr header{};
  if (!read_at(fd, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  std::vector<Elf64_Phdr> out(header.e_phnum);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!read_at(fd, header.e_phoff + i * sizeof(Elf64_Phdr), out[i])) {
      return {};
    }
  }
  return out;
}

std::vector<Elf64_Dyn> read_entries(int fd, const Elf64_Phdr& dynamic) {
  std::vector<Elf64_Dyn> out;
  Elf64_Dyn entry{};
  for (size_t i = 0; i < kMostEntries; ++i) {
    if (!read_at(fd, dynamic.p_offset + i * sizeof entry, entry) || entry.d_tag == DT_NULL) {
      break;
    }
    out.push_back(entry);
  }
  return out;
}

std::optional<uint64_t> file_offset(const std::vector<Elf64_Phdr>& segments, uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return address - segment.p_vaddr + segment.p_offset;
    }
  }
  return std::nullopt;
}

}  // namespace

bool ElfDynamic::mentions(std::string_view name) const {
  // Does not find a name that the linker has merged into the end of a longer name. The names searched here
  // are no such suffixes.
  const std::string ended = std::string(name) + '\0';
  return names.find('\0' + ended) != std::string::npos;
}

ElfDynamic read_elf_dynamic(const std::string& path) {
  ElfDynamic out;
  const auto file = base::open_read(path);
  if (!file) {
    return out;
  }
  const int fd = file->get();
  const std::vector<Elf64_Phdr> segments = read_segments(fd);
  std::vector<Elf64_Dyn> entries;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) {
      out.interpreter =
          read_text(fd, segment.p_offset, std::min<uint64_t>(segment.p_filesz, kLongestName)).c_str();
    } else if (segment.p_type == PT_DYNAMIC) {
      entries = read_entries(fd, segment);
    }
  }
  uint64_t address = 0;
  uint64_t size = 0;
  for (const Elf64_Dyn& entry : entries) {
    address = entry.d_tag == DT_STRTAB ? entry.d_un.d_ptr : address;
    size = entry.d_tag == DT_STRSZ ? entry.d_un.d_val : size;
  }
  if (const auto at = file_offset(segments, address)) {
    out.names = read_text(fd, *at, std::min(size, kMostNames));
  }
  for (const Elf64_Dyn& entry : entries) {
    if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < out.names.size()) {
      out.needed.emplace_back(out.names.c_str() + entry.d_un.d_val);
    }
  }
  return out;
}

std::vector<std::string> needed_libraries(const std::string& path) {
  return read_elf_dynamic(path).needed;
}

}  // namespace xpurun::launcher
