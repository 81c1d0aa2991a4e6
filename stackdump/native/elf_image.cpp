#include "stackdump/native/elf_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxHeaders = 65535;

std::string_view string_at(std::span<const std::byte> table, uint64_t offset) {
  if (offset >= table.size()) {
    return {};
  }
  const auto* text = reinterpret_cast<const char*>(table.data()) + offset;
  return {text, ::strnlen(text, table.size() - offset)};
}

}  // namespace

std::string build_id_in(std::span<const std::byte> notes) {
  size_t at = 0;
  while (const auto note = field<Elf64_Nhdr>(notes, at)) {
    const size_t name_at = at + sizeof(Elf64_Nhdr);
    const size_t desc_at = name_at + ((size_t{note->n_namesz} + 3) & ~size_t{3});
    if (desc_at > notes.size() || note->n_descsz > notes.size() - desc_at) {
      break;
    }
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
        std::memcmp(notes.data() + name_at, "GNU", 4) == 0) {
      std::string hex;
      for (std::byte b : notes.subspan(desc_at, std::min<size_t>(note->n_descsz, 64))) {
        hex += fmt::format("{:02x}", static_cast<unsigned>(b));
      }
      return hex;
    }
    at = desc_at + ((size_t{note->n_descsz} + 3) & ~size_t{3});
  }
  return {};
}

std::string_view ElfSymbol::name() const {
  return string_at(strings, name_offset);
}

base::Result<ElfImage> ElfImage::from_file(const std::string& path) {
  ElfImage image;
  image.path_ = path;
  XPURUN_TRY_ASSIGN(image.mapping_, base::Mapping::open_file(path));
  if (auto ok = image.parse(); !ok) {
    return base::fail(std::move(ok.error()).context(path));
  }
  return image;
}

base::Result<ElfImage> ElfImage::from_bytes(std::vector<std::byte> bytes, uint64_t bias) {
  ElfImage image;
  image.bytes_ = std::move(bytes);
  image.bias_ = bias;
  XPURUN_TRY(image.parse());
  return image;
}

std::span<const std::byte> ElfImage::file_part(uint64_t offset, uint64_t size) const {
  const auto all = file();
  if (offset > all.size() || size > all.size() - offset) {
    return {};
  }
  return all.subspan(offset, size);
}

base::Status ElfImage::parse() {
  const auto header = field<Elf64_Ehdr>(file(), 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return base::fail("not a 64-bit little-endian ELF file");
  }
  header_ = *header;
  for (size_t i = 0; i < header_.e_phnum; ++i) {
    if (auto segment = field<Elf64_Phdr>(file(), header_.e_phoff + i * sizeof(Elf64_Phdr))) {
      segments_.push_back(*segment);
    }
  }
  if (header_.e_shoff == 0 || header_.e_shentsize != sizeof(Elf64_Shdr)) {
    return {};
  }
  size_t count = header_.e_shnum;
  if (count == 0) {  // more than 65279 sections: the first section header holds the number
    const auto first = field<Elf64_Shdr>(file(), header_.e_shoff);
    count = first ? std::min<size_t>(first->sh_size, kMaxHeaders) : 0;
  }
  for (size_t i = 0; i < count; ++i) {
    const auto section = field<Elf64_Shdr>(file(), header_.e_shoff + i * sizeof(Elf64_Shdr));
    if (!section) {
      break;
    }
    sections_.push_back(*section);
  }
  return {};
}

std::span<const std::byte> ElfImage::at_vaddr(uint64_t vaddr) const {
  for (const Elf64_Phdr& p : segments_) {
    if (p.p_type == PT_LOAD && vaddr >= p.p_vaddr && vaddr - p.p_vaddr < p.p_filesz) {
      const uint64_t skip = vaddr - p.p_vaddr;
      const auto all = file();
      const uint64_t begin = p.p_offset + skip;
      if (begin < p.p_offset || begin >= all.size()) {
        return {};
      }
      return all.subspan(begin, std::min<uint64_t>(p.p_filesz - skip, all.size() - begin));
    }
  }
  return {};
}

AddrRange ElfImage::loaded_range() const {
  AddrRange range{~Addr{0}, 0};
  for (const Elf64_Phdr& p : segments_) {
    if (p.p_type == PT_LOAD) {
      range.lo = std::min(range.lo, p.p_vaddr);
      range.hi = std::max(range.hi, p.p_vaddr + p.p_memsz);
    }
  }
  return range.lo < range.hi ? range : AddrRange{};
}

std::optional<Elf64_Phdr> ElfImage::segment_of_type(uint32_t type) const {
  const auto it =
      std::find_if(segments_.begin(), segments_.end(), [&](const Elf64_Phdr& p) { return p.p_type == type; });
  return it == segments_.end() ? std::nullopt : std::optional(*it);
}

std::span<const std::byte> ElfImage::section_bytes(const Elf64_Shdr& section) const {
  return section.sh_type == SHT_NOBITS ? std::span<const std::byte>()
                                       : file_part(section.sh_offset, section.sh_size);
}

std::optional<Elf64_Shdr> ElfImage::section(std::string_view name) const {
  if (header_.e_shstrndx >= sections_.size()) {
    return std::nullopt;
  }
  const auto names = section_bytes(sections_[header_.e_shstrndx]);
  for (const Elf64_Shdr& s : sections_) {
    if (string_at(names, s.sh_name) == name) {
      return s;
    }
  }
  return std::nullopt;
}

std::string ElfImage::build_id() const {
  // In a separate debug file the program headers describe the original file; section headers are right in
  // both files.
  if (const auto own = section(".note.gnu.build-id")) {
    if (auto id = build_id_in(section_bytes(*own)); !id.empty()) {
      return id;
    }
  }
  for (const Elf64_Phdr& p : segments_) {
    if (p.p_type == PT_NOTE) {
      if (auto id = build_id_in(file_part(p.p_offset, p.p_filesz)); !id.empty()) {
        return id;
      }
    }
  }
  return {};
}

void ElfImage::forget_pages() const {
  mapping_.forget_pages();
}

void ElfImage::visit_table(std::span<const std::byte> symbols, std::span<const std::byte> strings,
                           const std::function<void(const ElfSymbol&)>& visit) const {
  for (size_t at = 0; symbols.size() - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
    Elf64_Sym s;
    std::memcpy(&s, symbols.data() + at, sizeof s);
    if (s.st_shndx == SHN_UNDEF || s.st_value == 0) {
      continue;
    }
    visit({.value = s.st_value,
           .size = s.st_size,
           .type = static_cast<uint8_t>(ELF64_ST_TYPE(s.st_info)),
           .binding = static_cast<uint8_t>(ELF64_ST_BIND(s.st_info)),
           .strings = strings,
           .name_offset = s.st_name});
  }
}

void ElfImage::visit_dynamic(const std::function<void(const ElfSymbol&)>& visit) const {
  const auto dynamic = segment_of_type(PT_DYNAMIC);
  if (!dynamic) {
    return;
  }
  uint64_t symtab = 0;
  uint64_t strtab = 0;
  uint64_t strsz = 0;
  const auto entries = at_vaddr(dynamic->p_vaddr);
  // An image rebuilt from memory has addresses that the dynamic linker has relocated.
  const auto unrelocated = [&](uint64_t v) { return bias_ != 0 && v >= bias_ ? v - bias_ : v; };
  for (size_t at = 0; at < dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto d = field<Elf64_Dyn>(entries, at);
    if (!d || d->d_tag == DT_NULL) {
      break;
    }
    if (d->d_tag == DT_SYMTAB) {
      symtab = unrelocated(d->d_un.d_ptr);
    } else if (d->d_tag == DT_STRTAB) {
      strtab = unrelocated(d->d_un.d_ptr);
    } else if (d->d_tag == DT_STRSZ) {
      strsz = d->d_un.d_val;
    }
  }
  auto strings = at_vaddr(strtab);
  strings = strings.subspan(0, std::min<uint64_t>(strings.size(), strsz));
  auto symbols = at_vaddr(symtab);
  // The dynamic section does not state the number of symbols. Linkers place .dynstr directly after .dynsym,
  // so the distance gives the number without a hash table. A wrong guess yields undefined symbols or names
  // outside the table, which are dropped.
  if (strtab > symtab) {
    symbols = symbols.subspan(0, std::min<uint64_t>(symbols.size(), strtab - symtab));
  }
  visit_table(symbols, strings, visit);
}

void ElfImage::for_each_symbol(const std::function<void(const ElfSymbol&)>& visit) const {
  bool any = false;
  for (const Elf64_Shdr& s : sections_) {
    if ((s.sh_type == SHT_SYMTAB || s.sh_type == SHT_DYNSYM) && s.sh_link < sections_.size()) {
      const auto symbols = section_bytes(s);
      any = any || !symbols.empty();
      visit_table(symbols, section_bytes(sections_[s.sh_link]), visit);
    }
  }
  if (!any) {
    visit_dynamic(visit);
  }
}

std::optional<ElfSymbol> ElfImage::find_symbol(std::string_view name) const {
  std::optional<ElfSymbol> found;
  for_each_symbol([&](const ElfSymbol& s) {
    if (!found && s.name() == name) {
      found = s;
    }
  });
  return found;
}

}  // namespace xpurun::stackdump
