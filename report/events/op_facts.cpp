#include "report/events/op_facts.h"

#include "common/base/hash.h"
#include "common/model/timing/op_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using wire::OpClass;
using wire::Source;

bool is_possible(const model::TimedEvent& event) {
  return event.begin_ns <= static_cast<uint64_t>(kLatestNs) &&
         event.duration_ns <= static_cast<uint64_t>(kLongestNs);
}

bool is_gpu_time(uint8_t source, unsigned flags) {
  const auto s = static_cast<Source>(source);
  return (s == Source::events || s == Source::nccl_profiler || s == Source::cupti) &&
         (flags & wire::kEventHostBegin) == 0;
}

bool is_in_place(const model::TimedEvent& event) {
  const auto source = static_cast<Source>(event.source);
  return is_gpu_time(event) || ((source == Source::nccl_profiler_host || source == Source::event_group) &&
                                (event.flags & wire::kEventHostBegin) == 0);
}

bool ends_together(std::string_view collective) {
  return collective == "AllReduce" || collective == "AllGather" || collective == "ReduceScatter" ||
         collective == "AlltoAll";
}

OpFacts facts_of(const model::EventFile& file, const model::EventFile::Op& op,
                 const model::EventFile::Entry& entry) {
  OpFacts out{.op_class = static_cast<OpClass>(op.key.op_class)};
  out.on_gpu = out.op_class == OpClass::matmul || out.op_class == OpClass::graph ||
               out.op_class == OpClass::kernel || out.op_class == OpClass::collective ||
               out.op_class == OpClass::memory;
  if (entry.communicator >= 0) {
    const model::EventCommunicator& comm = file.communicators[static_cast<size_t>(entry.communicator)];
    out.identity = comm.identity;
    out.size = comm.nranks;
    const bool numbered = out.op_class == OpClass::collective && comm.nranks > 1 && comm.identity != 0 &&
                          entry.event.sequence != 0;
    const bool message = is_message(op.function);
    out.meets = numbered && !message;
    out.pairs = numbered && message;
    if (out.pairs) {
      const auto own = static_cast<uint64_t>(comm.rank);
      const auto peer = static_cast<uint64_t>(op.key.peer);
      const bool sends = op.function == "ncclSend";
      out.identity = base::hash_words(comm.identity, {sends ? own : peer, sends ? peer : own, op.work});
    }
    // The host notices an end some 100 us late, on all hosts alike. Of the call itself it says nothing.
    const bool seen = static_cast<Source>(entry.event.source) != Source::host_call;
    out.ends_together = out.meets && seen && ends_together(model::collective_name(op.key));
  }
  return out;
}

bool is_message(std::string_view function) {
  return function == "ncclSend" || function == "ncclRecv";
}

uint64_t meeting_of(uint64_t communicator, int size, uint64_t sequence) {
  const uint64_t hash = base::hash_words(0, {communicator, static_cast<uint64_t>(size), sequence});
  return hash == 0 ? 1 : hash;
}

uint64_t meeting_of(std::string_view group, uint64_t sequence) {
  return meeting_of(base::hash_text(group), -1, sequence);
}

std::string shape_text(const model::EventKey& key) {
  return fmt::format("{}{}x{}x{}", key.batch > 1 ? fmt::format("{} x ", key.batch) : "", key.m, key.n, key.k);
}

std::string transposes_text(const model::EventKey& key) {
  constexpr std::string_view kLetters = "NTC?";
  const auto letter = [&](unsigned n) { return kLetters[std::min<size_t>(n, kLetters.size() - 1)]; };
  return {letter(key.trans & 15u), letter(key.trans >> 4u)};
}

}  // namespace xpurun::report
