#include "stackdump/core/core_process.h"

#include "stackdump/native/elf_image.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace xpurun::stackdump {

namespace {

constexpr std::string_view kDeleted = " (deleted)";
constexpr size_t kMaxHeaders = 256;                   // of one mapped image
constexpr uint64_t kMaxIdNotes = 65536;               // bytes
constexpr size_t kMaxStrings = 65536;                 // arguments and variables
constexpr size_t kMaxString = 131072;                 // the kernel's limit
constexpr size_t kMaxStringBytes = size_t{16} << 20;  // of all arguments and variables
constexpr uint64_t kVectorBefore = 16384;

void name_file(Mapping& m, const CoreFileMapping& file) {
  m.path = file.path;
  m.offset = file.offset + (m.lo - file.range.lo);
  if (m.path.ends_with(kDeleted)) {
    m.deleted = true;
    m.path.resize(m.path.size() - kDeleted.size());
  }
}

std::vector<std::byte> bytes_at(RemoteMemory& memory, Addr a, uint64_t size) {
  std::vector<std::byte> out(size);
  if (!memory.read(a, out)) {
    out.clear();
  }
  return out;
}

// The strings of an array of pointers. The array ends before `end` with a null pointer, and begins after a
// word that is no pointer. Returns the position of that word.
Addr strings_before(RemoteMemory& memory, Addr end, std::vector<Addr>& strings) {
  Addr at = end;
  while (strings.size() < kMaxStrings) {
    at -= 8;
    const auto word = memory.value<uint64_t>(at);
    if (!word || *word < 65536) {
      break;
    }
    strings.push_back(*word);
  }
  std::reverse(strings.begin(), strings.end());
  return at;
}

}  // namespace

ProcMaps core_maps(const CoreFile& core) {
  const CoreNotes& notes = core.notes();
  const Addr vdso = auxv_value(notes, AT_SYSINFO_EHDR);
  const Addr stack = auxv_value(notes, AT_RANDOM);
  std::vector<CoreFileMapping> files = notes.files;
  std::stable_sort(files.begin(), files.end(), [](const CoreFileMapping& a, const CoreFileMapping& b) {
    return a.range.lo < b.range.lo;
  });
  const auto file_at = [&](Addr a) -> const CoreFileMapping* {
    const auto it = std::upper_bound(files.begin(), files.end(), a,
                                     [](Addr v, const CoreFileMapping& f) { return v < f.range.lo; });
    return it != files.begin() && std::prev(it)->range.contains(a) ? &*std::prev(it) : nullptr;
  };
  std::vector<Mapping> out;
  for (const CoreSegment& s : core.segments()) {
    Mapping m;
    m.lo = s.range.lo;
    m.hi = s.range.hi;
    m.readable = s.readable;
    m.writable = s.writable;
    m.executable = s.executable;
    if (const CoreFileMapping* f = file_at(m.lo)) {
      name_file(m, *f);
    } else if (vdso != 0 && s.range.contains(vdso)) {
      m.path = "[vdso]";
    } else if (stack != 0 && s.range.contains(stack)) {
      m.path = "[stack]";
    }
    out.push_back(std::move(m));
  }
  // Mappings that the writer left out are known from NT_FILE only. Mappings without content are mostly code.
  for (const CoreFileMapping& f : files) {
    if (core.find(f.range.lo) == nullptr) {
      Mapping m;
      m.lo = f.range.lo;
      m.hi = f.range.hi;
      m.readable = true;
      m.executable = true;
      name_file(m, f);
      out.push_back(std::move(m));
    }
  }
  return ProcMaps(std::move(out));
}

std::map<std::string, ModuleFacts> core_modules(RemoteMemory& dumped, const ProcMaps& maps) {
  std::map<std::string, ModuleFacts> out;
  for (const Mapping& m : maps.all()) {
    if (!m.is_file() || m.offset != 0 || out.contains(m.path)) {
      continue;
    }
    const auto header = dumped.value<Elf64_Ehdr>(m.lo);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_phentsize != sizeof(Elf64_Phdr)) {
      continue;
    }
    ModuleFacts facts;
    for (size_t i = 0; i < std::min<size_t>(header->e_phnum, kMaxHeaders); ++i) {
      const auto p = dumped.value<Elf64_Phdr>(m.lo + header->e_phoff + i * sizeof(Elf64_Phdr));
      if (!p) {
        break;
      }
      if (p->p_type == PT_LOAD) {
        facts.segments.push_back(*p);
      } else if (p->p_type == PT_NOTE && facts.build_id.empty() && p->p_filesz <= kMaxIdNotes) {
        facts.build_id = build_id_in(bytes_at(dumped, m.lo + p->p_offset, p->p_filesz));
      }
    }
    out.emplace(m.path, std::move(facts));
  }
  return out;
}

std::string core_program(const CoreNotes& notes, const ProcMaps& maps) {
  for (const uint64_t type : {uint64_t{AT_PHDR}, uint64_t{AT_ENTRY}}) {
    const Mapping* m = maps.find(auxv_value(notes, type));
    if (m != nullptr && m->is_file()) {
      return m->path;
    }
  }
  return {};
}

// The kernel puts on the stack, upwards: number of arguments, arguments, 0, variables, 0, the auxiliary
// vector, then the 16 random bytes.
CoreArguments core_arguments(RemoteMemory& memory, const CoreNotes& notes) {
  CoreArguments out;
  const Addr random = auxv_value(notes, AT_RANDOM);
  if (random < kVectorBefore || notes.auxv.size() < 4) {
    return out;
  }
  // AT_RANDOM lies shortly above the auxiliary vector, so the search goes downwards from it and compares the
  // whole vector.
  Addr vector = 0;
  for (Addr at = random & ~Addr{7}; vector == 0 && at > random - kVectorBefore; at -= 8) {
    const auto word = memory.value<uint64_t>(at);
    if (!word) {
      return out;
    }
    bool same = *word == notes.auxv[0];
    for (size_t i = 1; same && i < notes.auxv.size(); ++i) {
      same = memory.value<uint64_t>(at + 8 * i) == notes.auxv[i];
    }
    vector = same ? at : 0;
  }
  if (vector == 0 || memory.value<uint64_t>(vector - 8) != 0) {
    return out;
  }
  std::vector<Addr> variables;
  const Addr before = strings_before(memory, vector - 8, variables);
  if (memory.value<uint64_t>(before) != 0) {
    return out;
  }
  std::vector<Addr> arguments;
  const Addr count = strings_before(memory, before, arguments);
  if (memory.value<uint64_t>(count) != arguments.size()) {
    return out;
  }
  size_t left = kMaxStringBytes;
  const auto text_at = [&](Addr a) {
    std::string text = memory.c_string(a, std::min(kMaxString, left)).value_or("");
    left -= text.size();
    return text;
  };
  for (const Addr a : arguments) {
    out.argv.push_back(text_at(a));
  }
  for (const Addr a : variables) {
    const std::string text = text_at(a);
    if (const size_t equals = text.find('='); equals != std::string::npos) {
      out.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
