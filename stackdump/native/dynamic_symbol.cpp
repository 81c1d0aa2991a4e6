#include "stackdump/native/dynamic_symbol.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxEntries = 256;  // of a dynamic section
constexpr size_t kMaxChain = 4096;   // symbols of one hash bucket

struct DynamicTables {
  Addr symbols = 0;
  Addr strings = 0;
  Addr gnu_hash = 0;
};

uint32_t gnu_hash(std::string_view name) {
  uint32_t h = 5381;
  for (unsigned char c : name) {
    h = h * 33 + c;
  }
  return h;
}

std::optional<DynamicTables> dynamic_tables(RemoteMemory& memory, Addr dynamic, size_t size, Addr bias) {
  DynamicTables out;
  // The dynamic linker of glibc relocates these addresses in memory; that of musl and the vDSO's table leave
  // them relative.
  const auto place = [bias](uint64_t v) { return v < bias ? v + bias : v; };
  for (size_t i = 0; i < std::min(size / sizeof(Elf64_Dyn), kMaxEntries); ++i) {
    const auto d = memory.value<Elf64_Dyn>(dynamic + i * sizeof(Elf64_Dyn));
    if (!d || d->d_tag == DT_NULL) {
      break;
    }
    if (d->d_tag == DT_SYMTAB) {
      out.symbols = place(d->d_un.d_ptr);
    } else if (d->d_tag == DT_STRTAB) {
      out.strings = place(d->d_un.d_ptr);
    } else if (d->d_tag == DT_GNU_HASH) {
      out.gnu_hash = place(d->d_un.d_ptr);
    }
  }
  if (out.symbols == 0 || out.strings == 0 || out.gnu_hash == 0) {
    return std::nullopt;
  }
  return out;
}

std::optional<LoadedSymbol> look_up(RemoteMemory& memory, const DynamicTables& t, Addr bias,
                                    std::string_view name) {
  struct Header {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  const auto h = memory.value<Header>(t.gnu_hash);
  if (!h || h->buckets == 0) {
    return std::nullopt;
  }
  const uint32_t hash = gnu_hash(name);
  const Addr buckets = t.gnu_hash + sizeof(Header) + uint64_t{h->bloom_words} * 8;
  const Addr chain = buckets + uint64_t{h->buckets} * 4;
  const auto first = memory.value<uint32_t>(buckets + uint64_t{hash % h->buckets} * 4);
  if (!first || *first < h->first_symbol) {
    return std::nullopt;
  }
  for (uint64_t i = *first; i < *first + kMaxChain; ++i) {
    const auto entry = memory.value<uint32_t>(chain + (i - h->first_symbol) * 4);
    if (!entry) {
      return std::nullopt;
    }
    // The lowest bit of an entry marks the end of the chain and is no part of the hash.
    if ((*entry | 1) == (hash | 1)) {
      const auto s = memory.value<Elf64_Sym>(t.symbols + i * sizeof(Elf64_Sym));
      if (s && s->st_shndx != SHN_UNDEF && memory.c_string(t.strings + s->st_name, 256) == name) {
        return LoadedSymbol{.address = s->st_value + bias, .size = s->st_size};
      }
    }
    if ((*entry & 1) != 0) {
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LoadedSymbol> find_dynamic_symbol(RemoteMemory& memory, Addr image, std::string_view name) {
  const auto header = memory.value<Elf64_Ehdr>(image);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  Addr lowest = ~Addr{0};
  std::optional<Elf64_Phdr> dynamic;
  for (size_t i = 0; i < std::min<size_t>(header->e_phnum, 64); ++i) {
    const auto p = memory.value<Elf64_Phdr>(image + header->e_phoff + i * sizeof(Elf64_Phdr));
    if (p && p->p_type == PT_LOAD) {
      lowest = std::min(lowest, p->p_vaddr & ~Addr{4095});
    } else if (p && p->p_type == PT_DYNAMIC) {
      dynamic = p;
    }
  }
  if (!dynamic || lowest == ~Addr{0}) {
    return std::nullopt;
  }
  const Addr bias = header->e_type == ET_EXEC ? 0 : image - lowest;
  const auto tables = dynamic_tables(memory, bias + dynamic->p_vaddr, dynamic->p_memsz, bias);
  return tables ? look_up(memory, *tables, bias, name) : std::nullopt;
}

}  // namespace xpurun::stackdump
