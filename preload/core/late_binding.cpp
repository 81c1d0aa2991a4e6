#include "preload/core/late_binding.h"

#include "common/wire/api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

#if defined(__x86_64__)
constexpr uint64_t kCallSlot = R_X86_64_JUMP_SLOT;
constexpr uint64_t kAddressSlot = R_X86_64_GLOB_DAT;
#else
constexpr uint64_t kCallSlot = R_AARCH64_JUMP_SLOT;
constexpr uint64_t kAddressSlot = R_AARCH64_GLOB_DAT;
#endif

struct Library {
  const char* file;
  uintptr_t base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  // Read-only after the start (PT_GNU_RELRO).
  uintptr_t read_only = 0;
  uintptr_t read_only_end = 0;
};

int visit(dl_phdr_info* info, size_t, void* data) {
  auto& library = *static_cast<Library*>(data);
  const char* slash = strrchr(info->dlpi_name, '/');
  if (strcmp(slash == nullptr ? info->dlpi_name : slash + 1, library.file) != 0) {
    return 0;
  }
  library.base = info->dlpi_addr;
  for (uint32_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) {
      library.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    } else if (header.p_type == PT_GNU_RELRO) {
      library.read_only = begin;
      library.read_only_end = begin + header.p_memsz;
    }
  }
  return 1;
}

// glibc has put addresses into the dynamic section; musl leaves offsets there.
uintptr_t address_in(const Library& library, uintptr_t value) {
  return value < library.base ? library.base + value : value;
}

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * calls = nullptr;
  const ElfW(Rela) * addresses = nullptr;
  size_t calls_bytes = 0;
  size_t addresses_bytes = 0;
  size_t relative = 0;  // of the addresses, the first so many have no symbol
};

Tables tables_of(const Library& library) {
  Tables out;
  for (const ElfW(Dyn)* entry = library.dynamic; entry->d_tag != DT_NULL; ++entry) {
    const auto value = static_cast<uintptr_t>(entry->d_un.d_val);
    switch (entry->d_tag) {
      case DT_SYMTAB:
        out.symbols = reinterpret_cast<const ElfW(Sym)*>(address_in(library, value));
        break;
      case DT_STRTAB:
        out.names = reinterpret_cast<const char*>(address_in(library, value));
        break;
      case DT_JMPREL:
        out.calls = reinterpret_cast<const ElfW(Rela)*>(address_in(library, value));
        break;
      case DT_RELA:
        out.addresses = reinterpret_cast<const ElfW(Rela)*>(address_in(library, value));
        break;
      case DT_PLTRELSZ:
        out.calls_bytes = value;
        break;
      case DT_RELASZ:
        out.addresses_bytes = value;
        break;
      case DT_RELACOUNT:
        out.relative = value;
        break;
      default:
        break;
    }
  }
  return out;
}

bool is_ours(const void* function) {
  Dl_info theirs{};
  Dl_info mine{};
  return dladdr(function, &theirs) != 0 && dladdr(reinterpret_cast<const void*>(&bind_lookups), &mine) != 0 &&
         theirs.dli_fbase == mine.dli_fbase;
}

// What the library's dlsym() calls instead. The hook finds the real function by itself (resolve.h).
void* look_up(void* handle, const char* name) {
  void* real = dlsym(handle, name);
  if (real == nullptr || name == nullptr) {
    return real;
  }
  for (const wire::ApiInfo& api : wire::kApis) {
    if (strcmp(api.name, name) == 0) {
      void* hook = dlsym(RTLD_DEFAULT, name);
      return hook != nullptr && is_ours(hook) ? hook : real;
    }
  }
  return real;
}

bool write_slot(const Library& library, uintptr_t slot) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const bool read_only = slot >= library.read_only && slot < library.read_only_end;
  void* first = reinterpret_cast<void*>(slot & ~(page - 1));
  if (read_only && mprotect(first, page, PROT_READ | PROT_WRITE) != 0) {
    return false;
  }
  __atomic_store_n(reinterpret_cast<uintptr_t*>(slot), reinterpret_cast<uintptr_t>(&look_up),
                   __ATOMIC_RELEASE);
  if (read_only) {
    mprotect(first, page, PROT_READ);
  }
  return true;
}

bool bind(const Library& library, const Tables& tables, const ElfW(Rela) * entries, size_t count) {
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t type = ELF64_R_TYPE(entries[i].r_info);
    if (type != kCallSlot && type != kAddressSlot) {
      continue;
    }
    const ElfW(Sym)& symbol = tables.symbols[ELF64_R_SYM(entries[i].r_info)];
    if (strcmp(tables.names + symbol.st_name, "dlsym") == 0) {
      any = write_slot(library, library.base + entries[i].r_offset) || any;
    }
  }
  return any;
}

}  // namespace

bool bind_lookups(const char* file) {
  Library library{.file = file};
  if (dl_iterate_phdr(visit, &library) == 0 || library.dynamic == nullptr) {
    return false;
  }
  const Tables tables = tables_of(library);
  if (tables.symbols == nullptr || tables.names == nullptr) {
    return false;
  }
  const bool calls = bind(library, tables, tables.calls, tables.calls_bytes / sizeof(ElfW(Rela)));
  const size_t addresses = tables.addresses_bytes / sizeof(ElfW(Rela));
  const size_t skipped = tables.relative < addresses ? tables.relative : addresses;
  return bind(library, tables, tables.addresses + skipped, addresses - skipped) || calls;
}

}  // namespace xpurun::preload

// Python's bootstrap calls this after JAX has loaded its plugin.
extern "C" __attribute__((visibility("default"))) int xpurun_bind_lookups(const char* file) {
  return xpurun::preload::bind_lookups(file) ? 1 : 0;
}
