#include "launcher/collect/gpu_time.h"

#include <utility>

namespace xpurun::launcher {

namespace {

constexpr std::array<std::pair<wire::OpClass, std::string_view>, 5> kGpuTimeKinds = {
    {{wire::OpClass::matmul, "matmul"},
     {wire::OpClass::collective, "collective"},
     {wire::OpClass::memory, "memory"},
     {wire::OpClass::graph, "graph"},
     {wire::OpClass::kernel, "untraced"}}};
constexpr size_t kUntraced = 4;

bool works_on_stream(const wire::OpKey& key) {
  if (key.op_class != static_cast<uint8_t>(wire::OpClass::memory)) {
    return true;
  }
  switch (static_cast<wire::Api>(key.api)) {
    case wire::Api::cudaMemcpyAsync:
    case wire::Api::cudaMemcpy2DAsync:
    case wire::Api::cudaMemcpyPeerAsync:
    case wire::Api::cudaMemsetAsync:
      return (key.flags & wire::kOpOther) == 0;
    default:
      return false;
  }
}

double seconds_of(const OpTotals& op, const OpTotals& timed) {
  const auto ns = [](uint64_t of, uint64_t all, uint64_t all_ns) {
    return static_cast<double>(of) / static_cast<double>(all) * static_cast<double>(all_ns);
  };
  if (op.timed > 0) {
    return ns(op.calls, op.timed, op.timed_ns) * 1e-9;
  }
  if (timed.timed == 0) {
    return 0;
  }
  // An operation without samples gets the mean of its class: by work (FLOP, bytes) if known, else by calls.
  return (timed.timed_work > 0 ? ns(op.work, timed.timed_work, timed.timed_ns)
                               : ns(op.calls, timed.timed, timed.timed_ns)) *
         1e-9;
}

}  // namespace

double GpuTime::untraced_share() const {
  double all = 0;
  for (const KindOfWork& kind : kinds) {
    if (kind.calls > 0 && kind.samples == 0) {
      return -1;
    }
    all += kind.seconds;
  }
  return all > 0 ? kinds[kUntraced].seconds / all : -1;
}

uint64_t GpuTime::samples() const {
  uint64_t sum = 0;
  for (const KindOfWork& kind : kinds) {
    sum += kind.samples;
  }
  return sum;
}

GpuTime estimate_gpu_time(const std::vector<OpTotals>& ops) {
  GpuTime out;
  for (size_t i = 0; i < kGpuTimeKinds.size(); ++i) {
    const auto& [op_class, name] = kGpuTimeKinds[i];
    const auto counts = [wanted = op_class](const OpTotals& op) {
      return op.key.op_class == static_cast<uint8_t>(wanted) && works_on_stream(op.key);
    };
    KindOfWork& kind = out.kinds[i];
    kind.name = name;
    OpTotals timed{};
    for (const OpTotals& op : ops) {
      if (counts(op)) {
        kind.calls += op.calls;
        timed.timed += op.timed;
        timed.timed_ns += op.timed_ns;
        timed.timed_work += op.timed_work;
      }
    }
    kind.samples = timed.timed;
    for (const OpTotals& op : ops) {
      kind.seconds += counts(op) ? seconds_of(op, timed) : 0;
    }
  }
  return out;
}

}  // namespace xpurun::launcher
