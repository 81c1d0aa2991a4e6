// The rows of the tables of operations: calls with equal keys are counted together.
#pragma once

#include "common/model/timing/event_file.h"

#include <compare>
#include <cstdint>
#include <string>

namespace xpurun::report {

enum class OperationKind : uint8_t {
  matmul,
  collective,
  memory,
  kernel,        // also CUDA graphs: work without a table of its own
  launch,        // from the call of a matmul to its start on the GPU; without a table
  program_call,  // of torch.distributed, from the spans
};

struct OperationKey {
  OperationKind kind = OperationKind::kernel;
  std::string name;        // shape, operation, or function
  std::string type;        // data types; of a program call: its place
  std::string transposes;  // of a matmul
  uint64_t identity = 0;   // of the communicator
  int size = 0;            // of the communicator
  int bucket = 0;          // binary logarithm of the bytes

  auto operator<=>(const OperationKey&) const = default;
};

// The row of a timed call on the GPU; `communicator` may be null.
OperationKey key_of(const model::EventFile::Op& op, const model::EventCommunicator* communicator);

// 9 for 512 to 1023 bytes; 0 for 0.
int size_bucket(uint64_t bytes);

}  // namespace xpurun::report
