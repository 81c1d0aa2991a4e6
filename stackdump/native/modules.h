// ModuleList: the ELF image at an address, and its load address. The bias is computed per mapping from the
// mapping's own segment, so that it is right for images with several text segments or shifted file offsets
// (lld). Images are opened on first use. Owner: one dump of one process.
#pragma once

#include "common/base/ids.h"
#include "stackdump/memory/proc_maps.h"
#include "stackdump/native/elf_image.h"
#include "stackdump/native/module_files.h"

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
  const ElfImage* image = nullptr;  // null if the file cannot be opened and its memory is no valid image
  std::string why_no_image;         // for people; empty if there is an image
};

class ModuleList {
 public:
  // `memory` is used for images whose file is gone; it must outlive the list.
  ModuleList(ModuleFiles files, ProcMaps maps, RemoteMemory& memory);
  ModuleList(base::Pid pid, ProcMaps maps, RemoteMemory& memory)
      : ModuleList(ModuleFiles{.pid = pid}, std::move(maps), memory) {}

  // The module mapped at an address (executable or not), or null for anonymous memory and holes.
  const Module* find(Addr a);
  bool is_executable(Addr a) const;
  const ProcMaps& maps() const { return maps_; }
  // The separate file with the debug information of a module, or null; see find_debug_file().
  const ElfImage* debug_image(const Module& module);
  // Replaces the list of mappings; images stay open.
  void update(ProcMaps maps);
  // One sentence per image that was needed and could not be opened.
  std::vector<std::string> missing() const;
  void look_in(ModuleFiles files) { files_ = std::move(files); }
  const ModuleFiles& files() const { return files_; }

 private:
  using OpenedImage = base::Result<std::unique_ptr<ElfImage>>;
  const OpenedImage& image_for(const Mapping& mapping);
  base::Result<ElfImage> open_image(const Mapping& mapping);
  base::Result<ElfImage> open_remembered(const Mapping& mapping);
  bool may_be_unverified(const Mapping& mapping, const ElfImage& image) const;
  base::Result<ElfImage> image_from_memory(const Mapping& mapping);

  ModuleFiles files_;
  ProcMaps maps_;
  RemoteMemory& memory_;
  std::map<Addr, std::unique_ptr<Module>> modules_;  // by start of the mapping; null: no module
  std::map<std::string, OpenedImage> images_;        // by device, inode and path
  std::map<const ElfImage*, std::unique_ptr<ElfImage>> debug_images_;  // null: there is none
};

// The bias of an image with these segments, from a mapping at file offset mapping.offset; empty if no segment
// explains the mapping.
std::optional<uint64_t> load_bias(const std::vector<Elf64_Phdr>& segments, const Mapping& mapping);

}  // namespace xpurun::stackdump
