#include "stackdump/core/core_file.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxSegments = 262144;

tl::unexpected<base::Error> refuse(std::string what, std::string cause = "", std::string hint = "") {
  return base::fail(
      {.what = std::move(what), .id = "E-CORE", .cause = std::move(cause), .hint = std::move(hint)});
}

struct Packer {
  std::string_view magic;
  std::string_view name;
  std::string_view command;  // writes the unpacked file to standard output
};

// systemd-coredump compresses with zstd, lz4 or xz; crash handlers often with gzip.
constexpr std::array<Packer, 4> kPackers = {{{"\x28\xb5\x2f\xfd", "zstd", "zstd -dc"},
                                             {"\x04\x22\x4d\x18", "lz4", "lz4 -dc"},
                                             {"\xfd\x37zXZ", "xz", "xz -dc"},
                                             {"\x1f\x8b", "gzip", "gzip -dc"}}};

std::string machine_name(unsigned char elf_class, uint16_t machine) {
  switch (machine) {
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "32-bit x86";
    case EM_ARM:
      return "32-bit ARM";
    case EM_PPC64:
      return "POWER";
    case EM_RISCV:
      return "RISC-V";
    case EM_S390:
      return "S/390";
    case EM_X86_64:
      return elf_class == ELFCLASS32 ? "x32" : "big-endian x86-64";
    default:
      return fmt::format("number {}", machine);
  }
}

base::Status check_header(const std::array<std::byte, sizeof(Elf64_Ehdr)>& bytes, size_t size,
                          const std::string& path) {
  const std::string name = base::sanitize(path);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min(size, bytes.size()));
  for (const Packer& p : kPackers) {
    if (start.starts_with(p.magic)) {
      return refuse(fmt::format("{} is compressed with {}", name, p.name), "a core file is read in place",
                    fmt::format("{} {} > core", p.command, base::shell_quote(path)));
    }
  }
  if (size == 0) {
    return refuse(fmt::format("{} is empty", name), "the disk was full, or the core size limit was 0");
  }
  if (!start.starts_with(ELFMAG)) {
    return refuse(fmt::format("{} is not a core file: it has no ELF header", name));
  }
  if (size < sizeof(Elf64_Ehdr)) {
    return refuse(fmt::format("{} is truncated inside its ELF header", name));
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_X86_64) {
    // The machine number has the file's byte order.
    const auto machine = header.e_ident[EI_DATA] == ELFDATA2MSB
                             ? static_cast<uint16_t>(header.e_machine << 8 | header.e_machine >> 8)
                             : header.e_machine;
    return refuse(
        fmt::format("{} is of another machine ({})", name, machine_name(header.e_ident[EI_CLASS], machine)),
        "xpurun reads core files of x86-64");
  }
  if (header.e_type != ET_CORE) {
    return refuse(fmt::format("{} is a program or a library, not a core file", name), "",
                  fmt::format("xpurun stacks --core CORE {}", base::shell_quote(path)));
  }
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0) {
    return refuse(fmt::format("{} has no program headers", name));
  }
  return {};
}

}  // namespace

base::Result<CoreFile> CoreFile::open(const std::string& path) {
  struct stat st {};
  // Opening a FIFO blocks until a writer comes.
  if (::stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    return refuse(fmt::format("{} is not a regular file", base::sanitize(path)));
  }
  auto fd = base::open_read(path);
  if (!fd) {
    base::Error e = std::move(fd.error());
    e.id = "E-CORE";
    if (e.sys_errno == EACCES) {
      e.cause = "a core file belongs to the user of its process";
    }
    return base::fail(std::move(e));
  }
  return from_fd(std::move(*fd), path);
}

base::Result<CoreFile> CoreFile::from_fd(base::UniqueFd fd, const std::string& path) {
  CoreFile core(std::move(fd));
  XPURUN_TRY(core.parse(path));
  return core;
}

bool CoreFile::read(uint64_t offset, std::span<std::byte> into) const {
  if (offset > size_ || into.size() > size_ - offset) {
    return false;
  }
  while (!into.empty()) {
    const ssize_t n = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return false;
    }
    offset += static_cast<uint64_t>(n);
    into = into.subspan(static_cast<size_t>(n));
  }
  return true;
}

base::Status CoreFile::parse(const std::string& path) {
  struct stat st {};
  if (::fstat(fd_.get(), &st) != 0) {
    return base::fail_errno(fmt::format("cannot stat {}", path));
  }
  size_ = static_cast<uint64_t>(std::max<off_t>(st.st_size, 0));
  written_ns_ = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec;
  std::array<std::byte, sizeof(Elf64_Ehdr)> start{};
  const size_t begin = std::min<uint64_t>(size_, start.size());
  if (!read(0, std::span(start).first(begin))) {
    return base::fail_errno(fmt::format("cannot read {}", path));
  }
  XPURUN_TRY(check_header(start, begin, path));
  Elf64_Ehdr header;
  std::memcpy(&header, start.data(), sizeof header);
  uint64_t count = header.e_phnum;
  if (count == PN_XNUM) {
    // PN_XNUM: more mappings than the field can hold. The first section header has the number.
    Elf64_Shdr first{};
    count = read(header.e_shoff, std::as_writable_bytes(std::span(&first, 1))) ? first.sh_info : 0;
  }
  std::vector<Elf64_Phdr> headers;
  // Compared with the file's size before any allocation: a damaged header may claim any number.
  if (count <= kMaxSegments && count * sizeof(Elf64_Phdr) <= size_) {
    headers.resize(count);
  }
  if (headers.empty() || !read(header.e_phoff, std::as_writable_bytes(std::span(headers)))) {
    return refuse(fmt::format("{} is truncated inside its program headers", base::sanitize(path)),
                  "the disk was full, or the core size limit was too low");
  }
  for (const Elf64_Phdr& p : headers) {
    const uint64_t there = p.p_offset < size_ ? size_ - p.p_offset : 0;
    // A truncated core file keeps what precedes the cut, so each part is clipped to the file instead of
    // refused.
    if (p.p_type == PT_NOTE) {
      read_core_notes([this](uint64_t offset, std::span<std::byte> into) { return read(offset, into); },
                      p.p_offset, std::min(p.p_filesz, there), notes_);
    } else if (p.p_type == PT_LOAD && p.p_memsz > 0 && p.p_vaddr + p.p_memsz > p.p_vaddr) {
      const uint64_t wanted = std::min(p.p_filesz, p.p_memsz);
      segments_.push_back({.range = {p.p_vaddr, p.p_vaddr + p.p_memsz},
                           .offset = p.p_offset,
                           .wanted = wanted,
                           .dumped = std::min(wanted, there),
                           .readable = (p.p_flags & PF_R) != 0,
                           .writable = (p.p_flags & PF_W) != 0,
                           .executable = (p.p_flags & PF_X) != 0});
    }
  }
  std::stable_sort(segments_.begin(), segments_.end(),
                   [](const CoreSegment& a, const CoreSegment& b) { return a.range.lo < b.range.lo; });
  if (notes_.threads.empty()) {
    return refuse(
        fmt::format("{} has no registers of any thread (no note NT_PRSTATUS)", base::sanitize(path)));
  }
  // Without NT_PRPSINFO the process id is unknown. The thread that got the signal stands in.
  if (notes_.pid == 0) {
    notes_.pid = notes_.threads.front().tid;
  }
  return {};
}

const CoreSegment* CoreFile::find(Addr a) const {
  const auto it = std::upper_bound(segments_.begin(), segments_.end(), a,
                                   [](Addr value, const CoreSegment& s) { return value < s.range.lo; });
  return it != segments_.begin() && std::prev(it)->range.contains(a) ? &*std::prev(it) : nullptr;
}

uint64_t CoreFile::cut_off() const {
  uint64_t out = 0;
  for (const CoreSegment& s : segments_) {
    out += s.wanted - s.dumped;
  }
  return out;
}

}  // namespace xpurun::stackdump
