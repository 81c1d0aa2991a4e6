// ElfImage: one ELF file, mapped from disk or assembled from the memory of a process. Every access is
// bounds-checked: a truncated or hostile file yields nothing, never a crash. Only 64-bit little-endian.
#pragma once

#include "common/base/os/mapping.h"
#include "common/base/result.h"
#include "stackdump/memory/remote_memory.h"

#include <elf.h>
#include <functional>
#include <string_view>

namespace xpurun::stackdump {

struct ElfSymbol {
  uint64_t value = 0;  // virtual address in the file
  uint64_t size = 0;
  uint8_t type = 0;                    // STT_*
  uint8_t binding = 0;                 // STB_*
  std::span<const std::byte> strings;  // the table that holds the name, in the image
  uint32_t name_offset = 0;

  // Names are read on request, because the names of a large library take four times the size of its symbol
  // table.
  std::string_view name() const;
};

class ElfImage {
 public:
  static base::Result<ElfImage> from_file(const std::string& path);
  // `bytes` in the order of file offsets, rebuilt from mappings, usually without section headers. `bias` is
  // the load bias: ld.so has relocated the dynamic section in place.
  static base::Result<ElfImage> from_bytes(std::vector<std::byte> bytes, uint64_t bias);

  // The whole file, or the content assembled from memory.
  std::span<const std::byte> file() const {
    return bytes_.empty() ? mapping_.bytes() : std::span<const std::byte>(bytes_);
  }
  // The path of the opened file; empty for content from memory.
  const std::string& path() const { return path_; }
  // Without section headers only exported symbols are known.
  bool has_sections() const { return !sections_.empty(); }
  bool fixed_address() const { return header_.e_type == ET_EXEC; }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  // The loaded bytes from a virtual address to the end of the file part of its segment; empty if none.
  std::span<const std::byte> at_vaddr(uint64_t vaddr) const;
  // First and last loaded virtual address, not rounded to pages.
  AddrRange loaded_range() const;
  std::optional<Elf64_Phdr> segment_of_type(uint32_t type) const;
  std::optional<Elf64_Shdr> section(std::string_view name) const;
  std::span<const std::byte> section_bytes(const Elf64_Shdr& section) const;
  std::string build_id() const;  // hexadecimal, or empty
  // Releases the memory of a mapped file after a pass over a large table; the kernel reads the file again on
  // demand.
  void forget_pages() const;

  // Visits all defined symbols of .symtab and .dynsym; without section headers, of the dynamic section.
  void for_each_symbol(const std::function<void(const ElfSymbol&)>& visit) const;
  // The first symbol of this exact (mangled) name. Linear in the size of the tables.
  std::optional<ElfSymbol> find_symbol(std::string_view name) const;

 private:
  std::span<const std::byte> file_part(uint64_t offset, uint64_t size) const;
  base::Status parse();
  void visit_table(std::span<const std::byte> symbols, std::span<const std::byte> strings,
                   const std::function<void(const ElfSymbol&)>& visit) const;
  void visit_dynamic(const std::function<void(const ElfSymbol&)>& visit) const;

  std::string path_;
  base::Mapping mapping_;
  std::vector<std::byte> bytes_;
  uint64_t bias_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

// The build id among ELF notes, hexadecimal; empty if there is none.
std::string build_id_in(std::span<const std::byte> notes);

}  // namespace xpurun::stackdump
