// Departures: the ranks whose calls differ from their own routine where the other ranks kept theirs. Pure.
#pragma once

#include "common/model/collectives.h"
#include "common/model/rank_set.h"
#include "common/model/verdict.h"
#include "report/diagnosis/collectives/call_group.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

model::RankSet common(const model::RankSet& a, const model::RankSet& b);
// 60 % of three ranks or more.
bool is_majority(size_t part, size_t all);

struct Departed {
  model::Departure kind = model::Departure::none;
  std::string communicator;                         // its id
  uint64_t number = 0;                              // of the call in which the rank departed
  const model::CollectiveCall* call = nullptr;      // skipped: the first call left out
  const model::CollectiveCall* expected = nullptr;  // skipped: the call that came instead
  uint64_t repeated = 0;                            // how often the expected call had come there
  // The communicators of these two calls.
  std::string of_call;
  std::string of_expected;
  // All ranks made equal calls under the number, from other lines: only a shift of the later calls shows
  // that there was one call more or less.
  bool same_shape = false;
  bool fresh = false;  // the rank made the call that surprises for the first time in its record
};

class Departures {
 public:
  // The facts must outlive the object.
  explicit Departures(const model::CollectiveFacts& facts);

  // The oldest departure of the rank, those that changed the shape of a call first; null if none.
  const Departed* of(base::Rank rank) const;
  // The departure that these ranks share; null if theirs differ.
  const Departed* of_all(const model::RankSet& ranks) const;
  // The departure of the first of these ranks in this call, if all of them have departed in it; else null.
  const Departed* at(const model::RankSet& ranks, const std::string& communicator, uint64_t number) const;
  // Ranks with a departure that needs no other sign.
  model::RankSet certain() const;
  // Most ranks of the communicator departed together in this call: those that have not called it are alone.
  bool together(const std::string& communicator, uint64_t number) const;

 private:
  std::map<base::Rank, std::vector<Departed>> by_rank_;
  std::map<std::string, std::vector<uint64_t>> together_;
};

// The ranks of `among` that since the last call of all ranks have made other calls than most of all ranks did
// at the same point, each in its own group. Empty if most ranks have no common way.
model::RankSet odd_ranks(const model::CollectiveFacts& facts, const model::RankSet& among);

// Two ranks whose calls on one communicator are equal if one call of the first rank is taken out: the first
// has made one call more, or the other one less.
struct Shift {
  model::RankSet ahead;
  model::RankSet behind;
  uint64_t number = 0;                          // of the call that is too many
  const model::CollectiveCall* call = nullptr;  // that call
};

// From the lines of the calls before this one: the number from which on the ranks of `ahead` are one call
// further than those of `behind`, which end in another call under `number` for that reason; 0 if the lines do
// not tell.
uint64_t find_shift_before(const model::CollectiveFacts& facts, const std::string& comm,
                           const model::RankSet& ahead, const model::RankSet& behind, uint64_t number);

// From the lines of the calls: whether the ranks that have called more are shifted against the others. Empty
// if the lines do not tell.
std::optional<Shift> find_shift(const model::CollectiveFacts& facts, const CallGroup& group);

}  // namespace xpurun::report
