// Peaks: peak FLOP/s of a device without sparsity, from --peak or from the vendor's data sheets. A value
// type; any thread.
#pragma once

#include "common/base/result.h"

#include <map>
#include <string>
#include <string_view>

namespace xpurun::model {

class Peaks {
 public:
  // "989e12" or "989T" for all types, "bf16=989T,fp8=1979T" for some; both forms may be combined with a
  // comma.
  static base::Result<Peaks> parse(std::string_view text);

  // Peak for this operand type (cudaDataType_t) and compute type (cublasComputeType_t); 0: unknown.
  double of(std::string_view device_name, int cuda_type, int compute_type) const;
  // Whether --peak gave a value for this type.
  bool is_given(int cuda_type, int compute_type) const { return given(cuda_type, compute_type) > 0; }

  bool operator==(const Peaks&) const = default;

 private:
  double given(int cuda_type, int compute_type) const;

  std::map<std::string, double, std::less<>> given_;  // by type name of --peak; "": for all other types
};

}  // namespace xpurun::model
