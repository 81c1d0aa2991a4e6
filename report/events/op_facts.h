// What is known of a timed call, and of all calls of its entry in an event file. Every analysis takes these
// facts from here.
#pragma once

#include "common/model/timing/event_file.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace xpurun::report {

// Nothing of a run is later or longer; more comes from damage and would overflow sums.
inline constexpr int64_t kLatestNs = int64_t{1} << 62;
inline constexpr int64_t kLongestNs = int64_t{30} * 24 * 3600 * 1'000'000'000;

// False for times that come from damage.
bool is_possible(const model::TimedEvent& event);

// Begin and end are readings of the GPU's clock. `flags`: of wire::EventFlag.
bool is_gpu_time(uint8_t source, unsigned flags);
inline bool is_gpu_time(const model::TimedEvent& event) {
  return is_gpu_time(event.source, event.flags);
}
// Begin and end show when the GPU was at work. Beside GPU times these are the times of NCCL's proxy thread
// (NCCL 2.26), which show which rank arrived last, but are too inexact for clocks and bandwidths, and those
// of a group of messages.
bool is_in_place(const model::TimedEvent& event);

// Collectives that no rank can leave before all have entered, by model::collective_name().
bool ends_together(std::string_view collective);

// "ncclSend", "ncclRecv".
bool is_message(std::string_view function);

// Facts of the calls of one entry on one communicator.
struct OpFacts {
  wire::OpClass op_class = wire::OpClass::host;
  bool on_gpu = false;  // work of the GPU: no call on the host, no control of a library
  // Numbered collectives of several ranks: the calls of one number meet.
  bool meets = false;
  // A send or a receive with a number: equal numbers of equal messages meet.
  bool pairs = false;
  bool ends_together = false;  // such a meeting that no rank leaves before all have entered, with a known end
  uint64_t identity = 0;  // of the communicator; if the call pairs, of such messages from one rank to another
  int size = 0;           // of the communicator
};
// `op`: of the entry.
OpFacts facts_of(const model::EventFile& file, const model::EventFile::Op& op,
                 const model::EventFile::Entry& entry);

// Number that is equal for one collective on all ranks, and differs for others; never 0.
uint64_t meeting_of(uint64_t communicator, int size, uint64_t sequence);
// The same for a call of torch.distributed on the group of this id.
uint64_t meeting_of(std::string_view group, uint64_t sequence);

// "4 x 4096x1024x512" of a matmul.
std::string shape_text(const model::EventKey& key);
// "TN" of a matmul: of its two operands.
std::string transposes_text(const model::EventKey& key);

}  // namespace xpurun::report
