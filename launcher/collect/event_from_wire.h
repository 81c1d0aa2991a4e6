// Converts what a rank puts into its segment into what an event file holds.
#pragma once

#include "common/model/timing/timed_event.h"
#include "common/wire/segment.h"

#include <algorithm>
#include <iterator>

namespace xpurun::launcher {

// A file holds the numbers of these enums, so that they can grow but not change. Who changes one converts
// here.
static_assert(static_cast<int>(wire::OpClass::matmul) == 1 &&
              static_cast<int>(wire::OpClass::collective) == 2 &&
              static_cast<int>(wire::OpClass::memory) == 3 && static_cast<int>(wire::OpClass::graph) == 4 &&
              static_cast<int>(wire::OpClass::kernel) == 5 && static_cast<int>(wire::OpClass::control) == 6 &&
              static_cast<int>(wire::OpClass::host) == 7);
static_assert(static_cast<int>(wire::Source::events) == 1 &&
              static_cast<int>(wire::Source::host_query) == 2 &&
              static_cast<int>(wire::Source::host_call) == 3 &&
              static_cast<int>(wire::Source::nccl_profiler) == 4 &&
              static_cast<int>(wire::Source::nccl_profiler_host) == 5 &&
              static_cast<int>(wire::Source::cupti) == 6 && static_cast<int>(wire::Source::event_group) == 7);
static_assert(wire::kOpScaleA == 1 && wire::kOpScaleB == 2 && wire::kOpRowMajor == 4 &&
              wire::kOpGrouped == 8 && wire::kOpMeets == 16 && wire::kOpOther == 128 &&
              wire::kEventHostBegin == 1 && wire::kEventFirstOfStep == 2);
static_assert(static_cast<int>(wire::HostMemory::pageable) == 1 &&
              static_cast<int>(wire::HostMemory::pinned) == 2);
static_assert(static_cast<int>(wire::Algorithm::pat) == 7 && static_cast<int>(wire::Protocol::simple) == 3);
static_assert(wire::kOpSlots <= model::kMostEntries && wire::kCommSlots <= model::kMostCommunicators);

inline model::EventKey key_from(const wire::OpKey& from) {
  model::EventKey out{.api = from.api,
                      .op_class = from.op_class,
                      .flags = from.flags,
                      .compute = from.compute,
                      .trans = from.trans,
                      .epilogue = from.epilogue,
                      .batch = from.batch,
                      .m = from.m,
                      .n = from.n,
                      .k = from.k,
                      .comm = from.comm < wire::kCommSlots ? from.comm : model::kNoCommunicator,
                      .peer = from.peer,
                      .copy = from.copy,
                      .pinned = from.pinned};
  std::copy(std::begin(from.dtype), std::end(from.dtype), out.dtype);
  return out;
}

inline model::TimedEvent event_from(const wire::Event& from) {
  return {.begin_ns = from.begin_ns,
          .duration_ns = from.duration_ns,
          .op = from.op,
          .sequence = from.sequence,
          .delay_us = from.delay_us,
          .stream = from.stream,
          .source = from.source,
          .flags = from.flags,
          .how = {from.how.algorithm, from.how.protocol, from.how.channels}};
}

}  // namespace xpurun::launcher
