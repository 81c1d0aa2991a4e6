// The CUDA libraries of a replay, loaded at run time: building xpurun needs none of them.
#pragma once

#include "commands/replay/vendor.h"
#include "common/base/result.h"

#include <string>
#include <vector>

namespace xpurun::launcher {

// The directories of the CUDA packages of this Python, where PyTorch finds its libraries. Runs the program;
// empty if the program does not answer.
std::vector<std::string> library_dirs_of_python(const std::string& python);

class Libraries {
 public:
  explicit Libraries(std::vector<std::string> dirs) : dirs_(std::move(dirs)) {}

  // The handles stay open until the process ends: these libraries cannot be unloaded safely. E-NO-GPU if
  // there is no driver, E-GPU-LIBRARY if another library or one of its functions is missing.
  base::Result<vendor::Driver> driver();
  base::Result<vendor::Blas> blas();
  base::Result<vendor::Lt> lt();
  base::Result<vendor::Nccl> nccl();

  // The paths of the loaded libraries.
  const std::string& blas_path() const { return blas_path_; }
  const std::string& nccl_path() const { return nccl_path_; }

 private:
  struct Loaded {
    void* handle = nullptr;
    std::string path;
  };
  // The first of `names` that is found: in the directories, then where the loader looks.
  base::Result<Loaded> load(const std::vector<std::string>& names) const;

  std::vector<std::string> dirs_;
  std::string blas_path_;
  std::string nccl_path_;
};

}  // namespace xpurun::launcher
