// Reads *.stacks.json in background threads and returns the processes in the order of the paths.
#pragma once

#include "common/base/result.h"
#include "common/model/stacks/stack_file.h"

#include <memory>
#include <string>
#include <vector>

namespace xpurun::report {

// Used by one thread.
class StackFileStream {
 public:
  explicit StackFileStream(std::vector<std::string> paths);
  ~StackFileStream();
  StackFileStream(const StackFileStream&) = delete;
  StackFileStream& operator=(const StackFileStream&) = delete;

  // Call once per path. Returns the next process in order, or the error of its file.
  base::Result<model::CompactStacks> next();

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace xpurun::report
