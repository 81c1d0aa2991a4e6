// Puts the stack dumps of several directories below one temporary directory, as links, so that they can be
// merged as one. Owner: removed in the destructor.
#pragma once

#include "common/base/result.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

class GatheredDumps {
 public:
  GatheredDumps() = default;
  ~GatheredDumps();
  GatheredDumps(GatheredDumps&& other) noexcept;
  GatheredDumps& operator=(GatheredDumps&&) = delete;

  static base::Result<GatheredDumps> create(const std::vector<std::string>& dirs);

  const std::string& path() const { return path_; }
  // Text about our links, with the directories as they were given.
  std::string original_names(std::string text) const;

 private:
  std::string path_;
  std::vector<std::string> dirs_;
};

}  // namespace xpurun::launcher
