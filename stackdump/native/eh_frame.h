// Where an image keeps its DWARF unwind information, in the form libunwind can search: the sorted table of
// .eh_frame_hdr where that has the usual encoding, else one that we build from .eh_frame in a single pass,
// and for functions that have none, .debug_frame.
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
  // Only from .debug_frame: its content rewritten as .eh_frame, for `own`, whose starts are then virtual
  // addresses and whose second offsets count from the beginning of this.
  std::vector<std::byte> frames;
};

// Nothing if the image has no .eh_frame.
std::optional<UnwindTable> find_unwind_table(const ElfImage& image);
// The same from .debug_frame. `image` may be a separate file of debug information.
std::optional<UnwindTable> find_debug_frame(const ElfImage& image);

// One pass over .eh_frame content that is loaded at `vaddr`; exposed for tests.
std::vector<FdeEntry> index_eh_frame(std::span<const std::byte> eh_frame, uint64_t vaddr);
// .debug_frame content as a table; exposed for tests.
UnwindTable convert_debug_frame(std::span<const std::byte> debug_frame);

}  // namespace xpurun::stackdump
