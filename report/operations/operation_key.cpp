#include "report/operations/operation_key.h"

#include "common/base/strings.h"
#include "common/model/timing/op_names.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <bit>

namespace xpurun::report {

namespace {

std::string types_of(const model::EventKey& key) {
  if (key.dtype[0] == model::kNoType) {
    return "";
  }
  const std::string a = model::cuda_type_name(key.dtype[0]);
  const std::string b = model::cuda_type_name(key.dtype[1]);
  const std::string d = model::cuda_type_name(key.dtype[3]);
  std::string out = a == b ? a : fmt::format("{} x {}", a, b);
  return d == a ? out : fmt::format("{} -> {}", out, d);
}

std::string shape_of(const model::EventKey& key) {
  return shape_text(key) + ((key.flags & wire::kOpGrouped) != 0 ? " grouped" : "");
}

std::string memory_name(const model::EventKey& key, const std::string& function) {
  const std::string_view direction = model::copy_direction(key);
  const auto host = static_cast<wire::HostMemory>(key.pinned);
  return fmt::format("{}{}{}{}", function, direction.empty() ? "" : " ", direction,
                     host == wire::HostMemory::pinned     ? ", pinned"
                     : host == wire::HostMemory::pageable ? ", pageable"
                                                          : "");
}

}  // namespace

int size_bucket(uint64_t bytes) {
  return bytes == 0 ? 0 : static_cast<int>(std::bit_width(bytes)) - 1;
}

OperationKey key_of(const model::EventFile::Op& op, const model::EventCommunicator* communicator) {
  const model::EventKey& key = op.key;
  const bool other = (key.flags & wire::kOpOther) != 0;
  const std::string function = other ? "other" : base::sanitize(op.function);
  OperationKey out{.name = function};
  switch (static_cast<wire::OpClass>(key.op_class)) {
    case wire::OpClass::matmul:
      out.kind = OperationKind::matmul;
      out.name = other ? "other shapes" : shape_of(key);
      out.type = other ? "" : types_of(key);
      out.transposes = other ? "" : transposes_text(key);
      break;
    case wire::OpClass::collective:
      out.kind = OperationKind::collective;
      out.name = other ? function : model::collective_name(key);
      out.type = other || key.dtype[0] == model::kNoType ? "" : model::nccl_type_name(key.dtype[0]);
      out.bucket = size_bucket(op.work);
      if (communicator != nullptr) {
        out.identity = communicator->identity;
        out.size = communicator->nranks;
      }
      break;
    case wire::OpClass::memory:
      out.kind = OperationKind::memory;
      out.name = other ? function : memory_name(key, function);
      out.bucket = size_bucket(op.work);
      break;
    default:
      break;
  }
  return out;
}

}  // namespace xpurun::report
