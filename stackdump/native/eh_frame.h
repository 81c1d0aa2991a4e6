// Where an image keeps its DWARF unwind information, in the form libunwind can search: the sorted table of
// .eh_frame_hdr where that has the usual encoding, else one that we build from .eh_frame in a single pass.
#pragma once

#include "stackdump/native/elf_image.h"

namespace xpurun::stackdump {

// Both offsets are relative to UnwindTable::base; ascending by start. Same layout as in .eh_frame_hdr.
struct FdeEntry {
  int32_t start;  // first address of the function
  int32_t fde;    // address of its frame description entry
};

struct UnwindTable {
  uint64_t base = 0;         // virtual address in the file that the offsets count from
  uint64_t table_vaddr = 0;  // of the sorted table in the image; 0 if `own` holds it
  size_t count = 0;
  std::vector<FdeEntry> own;
};

// Nothing if the image has no unwind information at all.
std::optional<UnwindTable> find_unwind_table(const ElfImage& image);

// One pass over .eh_frame content that is loaded at `vaddr`; exposed for tests.
std::vector<FdeEntry> index_eh_frame(std::span<const std::byte> eh_frame, uint64_t vaddr);

}  // namespace xpurun::stackdump
