// ModuleList: which ELF image is executed at an address, and where it was loaded. The bias is computed for
// each mapping from the segment that it maps, so that images with several text segments or shifted file
// offsets (lld) come out right. Images are opened when first needed. Owner: one dump of one process.
#pragma once

#include "common/base/ids.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/elf_image.h"

#include <map>
#include <memory>
#include <string>

namespace xpurun::stackdump {

struct Module {
  AddrRange range;    // of this mapping
  uint64_t bias = 0;  // address in the process minus virtual address in the file
  std::string path;
  std::string name;                 // last path component; "[vdso]" for the kernel's
  std::string build_id;             // hexadecimal, or empty
  const ElfImage* image = nullptr;  // null if the file cannot be opened and its memory makes no sense
};

class ModuleList {
 public:
  // `memory` is used for images whose file is gone; it must outlive the list.
  ModuleList(base::Pid pid, ProcMaps maps, LiveMemory& memory);

  // The module mapped at an address (executable or not), or null for anonymous memory and holes.
  const Module* find(Addr a);
  bool is_executable(Addr a) const;
  const ProcMaps& maps() const { return maps_; }
  // Replaces the list of mappings; images stay open.
  void update(ProcMaps maps);

 private:
  const ElfImage* image_for(const Mapping& mapping);
  base::Result<ElfImage> open_image(const Mapping& mapping);
  base::Result<ElfImage> image_from_memory(const Mapping& mapping);

  base::Pid pid_;
  ProcMaps maps_;
  LiveMemory& memory_;
  std::map<Addr, std::unique_ptr<Module>> modules_;          // by start of the mapping; null: no module
  std::map<std::string, std::unique_ptr<ElfImage>> images_;  // by device, inode and path; null: unusable
};

// The bias of a mapping of `image` at file offset mapping.offset; nothing if no segment explains it.
std::optional<uint64_t> load_bias(const ElfImage& image, const Mapping& mapping);

}  // namespace xpurun::stackdump
