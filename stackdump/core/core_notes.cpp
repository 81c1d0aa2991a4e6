#include "stackdump/core/core_notes.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <sys/procfs.h>
#include <sys/user.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxCoreThreads = 65536;
constexpr size_t kMaxFiles = 262144;  // four times vm.max_map_count
constexpr uint64_t kMaxNote = uint64_t{256} << 20;
constexpr uint64_t kMaxPage = uint64_t{1} << 30;  // of NT_FILE's unit
constexpr size_t kMaxAuxv = 1024;
constexpr size_t kMaxPath = 4096 + 16;

template <typename T>
std::optional<T> head(std::span<const std::byte> bytes) {
  return field<T>(bytes, 0);
}

template <size_t N>
std::string text_of(const char (&chars)[N]) {
  return {chars, ::strnlen(chars, N)};
}

uint64_t ms_of(const auto& t) {
  return t.tv_sec < 0 || t.tv_usec < 0
             ? 0
             : static_cast<uint64_t>(t.tv_sec) * 1000 + static_cast<uint64_t>(t.tv_usec) / 1000;
}

void add_thread(std::span<const std::byte> bytes, CoreNotes& notes) {
  const auto status = head<elf_prstatus>(bytes);
  if (!status || notes.threads.size() == kMaxCoreThreads) {
    return;
  }
  user_regs_struct registers{};
  static_assert(sizeof registers == sizeof status->pr_reg);
  std::memcpy(&registers, status->pr_reg, sizeof registers);
  notes.threads.push_back({.tid = status->pr_pid,
                           .registers = from_user_regs(registers),
                           .cpu_ms = ms_of(status->pr_utime) + ms_of(status->pr_stime),
                           .signal = status->pr_cursig,
                           .info = std::nullopt});
}

void add_process(std::span<const std::byte> bytes, CoreNotes& notes) {
  if (const auto info = head<elf_prpsinfo>(bytes)) {
    notes.pid = std::max(info->pr_pid, 0);
    notes.parent = std::max(info->pr_ppid, 0);
    notes.name = text_of(info->pr_fname);
    notes.arguments = text_of(info->pr_psargs);
  }
}

void add_signal(std::span<const std::byte> bytes, CoreNotes& notes) {
  const auto info = head<siginfo_t>(bytes);
  if (!info || notes.threads.empty()) {
    return;
  }
  // The kernel writes NT_SIGINFO after the NT_PRSTATUS of the thread that it belongs to.
  notes.threads.back().info = CoreSignal{.number = info->si_signo,
                                         .code = info->si_code,
                                         .address = reinterpret_cast<Addr>(info->si_addr),
                                         .sender = info->si_pid};
}

// Number of mappings, size of the unit of file offsets, begin, end and offset of each mapping, then the
// paths.
void add_files(std::span<const std::byte> bytes, CoreNotes& notes) {
  struct Entry {
    uint64_t lo, hi, offset;
  };
  const uint64_t count = field<uint64_t>(bytes, 0).value_or(0);
  const uint64_t page = field<uint64_t>(bytes, 8).value_or(0);
  if (page == 0 || page > kMaxPage || count > kMaxFiles || count * sizeof(Entry) > bytes.size()) {
    return;
  }
  size_t path_at = 16 + count * sizeof(Entry);
  for (uint64_t i = 0; i < count; ++i) {
    const auto entry = field<Entry>(bytes, 16 + i * sizeof(Entry));
    if (!entry || path_at >= bytes.size()) {
      return;
    }
    const auto* path = reinterpret_cast<const char*>(bytes.data()) + path_at;
    const size_t length = ::strnlen(path, bytes.size() - path_at);
    path_at += length + 1;
    if (entry->hi > entry->lo && length < kMaxPath && entry->offset <= ~uint64_t{0} / page) {
      notes.files.push_back({.range = {entry->lo, entry->hi},
                             .offset = entry->offset * page,
                             .path = std::string(path, length)});
    }
  }
}

void add_auxv(std::span<const std::byte> bytes, CoreNotes& notes) {
  for (size_t i = 0; i < kMaxAuxv; ++i) {
    // Each entry is a pair of words: type and value.
    const auto type = field<uint64_t>(bytes, i * 16);
    const auto value = field<uint64_t>(bytes, i * 16 + 8);
    if (!type || !value) {
      return;
    }
    notes.auxv.insert(notes.auxv.end(), {*type, *value});
    if (*type == AT_NULL) {
      return;
    }
  }
}

using Add = void (*)(std::span<const std::byte>, CoreNotes&);

Add reader_of(uint32_t type) {
  switch (type) {
    case NT_PRSTATUS:
      return add_thread;
    case NT_PRPSINFO:
      return add_process;
    case NT_SIGINFO:
      return add_signal;
    case NT_FILE:
      return add_files;
    case NT_AUXV:
      return add_auxv;
    default:
      return nullptr;
  }
}

}  // namespace

void read_core_notes(const ReadAt& read, uint64_t offset, uint64_t size, CoreNotes& notes) {
  constexpr char kCore[] = "CORE";
  // Name and content of a note are padded to 4 bytes, even in 64-bit core files.
  const auto padded = [](uint32_t n) { return (uint64_t{n} + 3) & ~uint64_t{3}; };
  std::vector<std::byte> content;
  uint64_t at = 0;
  Elf64_Nhdr note{};
  while (size - at >= sizeof note && read(offset + at, std::as_writable_bytes(std::span(&note, 1)))) {
    at += sizeof note;
    const uint64_t name_size = padded(note.n_namesz);
    if (name_size > size - at || note.n_descsz > size - at - name_size) {
      break;
    }
    char name[sizeof kCore] = "";
    const bool core = note.n_namesz == sizeof kCore &&
                      read(offset + at, std::as_writable_bytes(std::span(name))) &&
                      std::memcmp(name, kCore, sizeof kCore) == 0;
    at += name_size;
    const Add add = core ? reader_of(note.n_type) : nullptr;
    if (add != nullptr && note.n_descsz <= kMaxNote) {
      // A note that the file does not hold completely is left out, before its claimed size is allocated.
      std::byte last{};
      if (note.n_descsz == 0 || !read(offset + at + note.n_descsz - 1, std::span(&last, 1))) {
        break;
      }
      content.resize(note.n_descsz);
      if (!read(offset + at, content)) {
        break;
      }
      add(content, notes);
    }
    at += std::min(padded(note.n_descsz), size - at);
  }
}

uint64_t auxv_value(const CoreNotes& notes, uint64_t type) {
  for (size_t i = 0; i + 1 < notes.auxv.size(); i += 2) {
    if (notes.auxv[i] == type) {
      return notes.auxv[i + 1];
    }
  }
  return 0;
}

}  // namespace xpurun::stackdump
