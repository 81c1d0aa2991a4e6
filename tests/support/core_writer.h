// CoreWriter: makes ELF core files for tests. Addresses and sizes are given in bytes.
#pragma once

#include <csignal>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <string>
#include <string_view>
#include <sys/procfs.h>
#include <sys/user.h>
#include <utility>
#include <vector>

namespace xpurun::tests {

template <typename T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class CoreWriter {
 public:
  // `content` is the dumped part, `size` the size in memory (0: that of the content).
  CoreWriter& segment(uint64_t address, std::string content, uint64_t size = 0,
                      uint32_t flags = PF_R | PF_W) {
    segments_.push_back({.p_type = PT_LOAD,
                         .p_flags = flags,
                         .p_vaddr = address,
                         .p_filesz = content.size(),
                         .p_memsz = size == 0 ? content.size() : size});
    contents_.push_back(std::move(content));
    return *this;
  }

  CoreWriter& note(uint32_t type, std::string_view content, std::string_view name = "CORE") {
    const auto pad = [this] { notes_.append((4 - notes_.size() % 4) % 4, '\0'); };
    notes_ += bytes_of(Elf64_Nhdr{.n_namesz = static_cast<uint32_t>(name.size() + 1),
                                  .n_descsz = static_cast<uint32_t>(content.size()),
                                  .n_type = type});
    notes_ += name;
    notes_ += '\0';
    pad();
    notes_ += content;
    pad();
    return *this;
  }

  CoreWriter& thread(int tid, uint64_t pc, uint64_t sp, int signal = 0) {
    elf_prstatus status{};
    status.pr_pid = tid;
    status.pr_cursig = static_cast<short>(signal);
    status.pr_utime = {.tv_sec = 1, .tv_usec = 500'000};
    user_regs_struct registers{};
    registers.rip = pc;
    registers.rsp = sp;
    registers.fs_base = 0x7000'0000'0000 + static_cast<uint64_t>(tid);
    std::memcpy(&status.pr_reg, &registers, sizeof registers);
    return note(NT_PRSTATUS, bytes_of(status));
  }

  CoreWriter& process(int pid, std::string_view name, std::string_view arguments, int parent = 1) {
    elf_prpsinfo info{};
    info.pr_pid = pid;
    info.pr_ppid = parent;
    name.copy(info.pr_fname, sizeof info.pr_fname);
    arguments.copy(info.pr_psargs, sizeof info.pr_psargs);
    return note(NT_PRPSINFO, bytes_of(info));
  }

  CoreWriter& signal(int number, int code, uint64_t address, int sender = 0) {
    siginfo_t info{};
    info.si_signo = number;
    info.si_code = code;
    if (code > 0) {
      info.si_addr = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    } else {
      info.si_pid = sender;
    }
    return note(NT_SIGINFO, bytes_of(info));
  }

  struct File {
    uint64_t lo, hi, offset;
    std::string path;
  };
  CoreWriter& files(const std::vector<File>& files) {
    std::string out = bytes_of(uint64_t{files.size()}) + bytes_of(uint64_t{4096});
    for (const File& f : files) {
      out += bytes_of(f.lo) + bytes_of(f.hi) + bytes_of(f.offset / 4096);
    }
    for (const File& f : files) {
      out += f.path + '\0';
    }
    return note(NT_FILE, out);
  }

  CoreWriter& auxv(const std::vector<std::pair<uint64_t, uint64_t>>& entries) {
    std::string out;
    for (const auto& [type, value] : entries) {
      out += bytes_of(type) + bytes_of(value);
    }
    return note(NT_AUXV, out + bytes_of(uint64_t{AT_NULL}) + bytes_of(uint64_t{0}));
  }

  // Numbers the program headers in the first section header, as for more than 65534 mappings.
  CoreWriter& many_headers() {
    many_ = true;
    return *this;
  }

  std::string file() const {
    const size_t count = segments_.size() + 1;
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_CORE;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = static_cast<uint16_t>(many_ ? PN_XNUM : count);
    uint64_t at = sizeof header + count * sizeof(Elf64_Phdr);
    Elf64_Shdr first{};
    if (many_) {
      first.sh_info = static_cast<uint32_t>(count);
      header.e_shoff = at;
      header.e_shnum = 1;
      header.e_shentsize = sizeof first;
      at += sizeof first;
    }
    std::string out = bytes_of(header);
    out += bytes_of(Elf64_Phdr{.p_type = PT_NOTE, .p_offset = at, .p_filesz = notes_.size()});
    at += notes_.size();
    for (Elf64_Phdr p : segments_) {
      p.p_offset = at;
      at += p.p_filesz;
      out += bytes_of(p);
    }
    if (many_) {
      out += bytes_of(first);
    }
    out += notes_;
    for (const std::string& content : contents_) {
      out += content;
    }
    return out;
  }

 private:
  std::vector<Elf64_Phdr> segments_;
  std::vector<std::string> contents_;
  std::string notes_;
  bool many_ = false;
};

}  // namespace xpurun::tests
