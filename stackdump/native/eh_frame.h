// Finds the DWARF unwind information of an image in a form that libunwind can search: the sorted table of
// .eh_frame_hdr if it has the usual encoding, else a table built from .eh_frame in a single pass, and
// .debug_frame for functions that neither covers.
#pragma once

#include "stackdump/native/elf_image.h"

namespace xpurun::stackdump {

// Both offsets are relative to UnwindTable::base; ascending by start. Same layout as in .eh_frame_hdr.
struct FdeEntry {
  int32_t start;  // first address of the function
  int32_t fde;    // address of its frame description entry
};

struct UnwindTable {
  uint64_t base = 0;         // virtual address in the file that the offsets are relative to
  uint64_t table_vaddr = 0;  // of the sorted table in the image; 0 if `own` holds it
  size_t count = 0;
  std::vector<FdeEntry> own;
  // Only for .debug_frame: its content rewritten as .eh_frame. Then the starts in `own` are virtual
  // addresses, and the second offsets are relative to the beginning of this.
  std::vector<std::byte> frames;
};

// Empty if the image has no .eh_frame.
std::optional<UnwindTable> find_unwind_table(const ElfImage& image);
// The table from .debug_frame. `image` may be a separate debug file.
std::optional<UnwindTable> find_debug_frame(const ElfImage& image);

// One pass over .eh_frame content loaded at `vaddr`. Public for tests.
std::vector<FdeEntry> index_eh_frame(std::span<const std::byte> eh_frame, uint64_t vaddr);
// Converts .debug_frame content to a table. Public for tests.
UnwindTable convert_debug_frame(std::span<const std::byte> debug_frame);

}  // namespace xpurun::stackdump
