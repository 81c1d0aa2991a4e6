// CoreMemory: the memory of a process from its core file. The kernel leaves out pages that are equal in their
// file (code, constants); these come from the file if it is the same one.
#pragma once

#include "stackdump/core/core_file.h"
#include "stackdump/native/modules.h"

namespace xpurun::stackdump {

// Dumped memory only.
class DumpedMemory : public RemoteMemory {
 public:
  // `core` must outlive this object.
  explicit DumpedMemory(const CoreFile& core) : core_(core) {}
  bool read(Addr addr, std::span<std::byte> into) override;

 private:
  const CoreFile& core_;
};

class CoreMemory : public RemoteMemory {
 public:
  // `core` must outlive this object.
  explicit CoreMemory(const CoreFile& core) : core_(core) {}
  // Takes pages that are not in the core file from these images. `modules` must outlive this object, and must
  // not read through it.
  void use_files(ModuleList& modules) { modules_ = &modules; }
  bool read(Addr addr, std::span<std::byte> into) override;

 private:
  bool read_file_page(Addr addr, std::span<std::byte> into);

  const CoreFile& core_;
  ModuleList* modules_ = nullptr;
};

}  // namespace xpurun::stackdump
