// DwSession: libdw's view of the modules of one process. A module is reported when its first address appears.
#pragma once

#include "common/base/os/fd.h"
#include "stackdump/libdw/libdw_api.h"
#include "stackdump/native/modules.h"

#include <map>
#include <memory>

namespace xpurun::stackdump {

class DwSession {
 public:
  static base::Result<std::unique_ptr<DwSession>> open(ModuleList& modules);
  ~DwSession();
  DwSession(const DwSession&) = delete;
  DwSession& operator=(const DwSession&) = delete;

  const LibDw& api() const { return api_; }
  Dwfl* dwfl() const { return dwfl_; }
  ModuleList& modules() const { return modules_; }
  // Reports the module around an address to libdw. False without a module that libdw can read.
  bool report(Addr a);

 private:
  DwSession(const LibDw& api, ModuleList& modules) : api_(api), modules_(modules) {}

  const LibDw& api_;
  ModuleList& modules_;
  Dwfl* dwfl_ = nullptr;
  // By image and bias: whether libdw accepted the module.
  std::map<std::pair<const ElfImage*, uint64_t>, bool> reported_;
};

}  // namespace xpurun::stackdump
