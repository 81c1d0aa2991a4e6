// One kernel of xpu_timer's files. Field numbers are those of xpu_timer/protos/hook.proto in
// github.com/intelligent-machine-learning/dlrover. Untrusted.
#pragma once

#include "common/model/timing/timed_event.h"
#include "report/events/activity.h"

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <vector>

namespace xpurun::report {

// The key of a field: its number and the form of its value.
namespace xpu_timer {
inline constexpr auto kVarint = protozero::pbf_wire_type::varint;
inline constexpr auto kFixed64 = protozero::pbf_wire_type::fixed64;
inline constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr uint32_t field(protozero::pbf_tag_type number, protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}
}  // namespace xpu_timer

// KernelTrace.type
inline constexpr uint64_t kXpuTimerMatmul = 0;
inline constexpr uint64_t kXpuTimerCollective = 1;

struct XpuTimerKernel {
  uint64_t type = 0;
  uint64_t code = 0;
  uint64_t start_us = 0;
  uint64_t duration_us = 0;
  uint64_t delay_us = 0;
  uint64_t work = 0;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  int64_t ranks = 0;
  uint64_t problem_size = 0;  // bytes on the bus
  bool point_to_point = false;
  bool host = false;  // of the host's clock: an allocation
  model::EventKey key{};
  std::vector<Argument> arguments;
};

// Both throw protozero's exceptions.
XpuTimerKernel read_xpu_timer_kernel(protozero::pbf_reader r);
// MatmulDebug alone.
void read_xpu_timer_matmul(XpuTimerKernel& k, protozero::pbf_reader r);

}  // namespace xpurun::report
