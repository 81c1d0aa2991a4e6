#include "report/flight_recorder/ras_facts.h"

#include "report/flight_recorder/collective_words.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace xpurun::report {

namespace {

using model::CallStage;

// "AllReduce" of NCCL to the word of all sources.
std::string word_of(std::string_view operation) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kWords{
      {{"AllReduce", "all_reduce"},
       {"AllGather", "all_gather"},
       {"ReduceScatter", "reduce_scatter"},
       {"Broadcast", "broadcast"},
       {"Reduce", "reduce"},
       {"AlltoAll", "all_to_all"},
       {"Gather", "gather"},
       {"Scatter", "scatter"},
       // A text of NCCL before 2.26 counts all operations together.
       {"collective", "a collective"}}};
  const auto* found =
      std::find_if(kWords.begin(), kWords.end(), [&](const auto& w) { return w.first == operation; });
  return std::string(found == kWords.end() ? operation : found->second);
}

// Sends and receives are no steps that all ranks take.
bool is_collective(std::string_view operation) {
  return operation != "SendRecv" && operation != "Send" && operation != "Recv";
}

class FactsOfRas {
 public:
  explicit FactsOfRas(const RasStatus& status) : status_(status) {}

  FlightFacts take() {
    out_.notes = status_.notes;
    const auto largest =
        std::max_element(status_.communicators.begin(), status_.communicators.end(),
                         [](const RasCommunicator& a, const RasCommunicator& b) { return a.size < b.size; });
    if (largest == status_.communicators.end()) {
      return std::move(out_);
    }
    out_.world_size = static_cast<int>(largest->size);
    for (const auto& [rank, about] : largest->ranks) {
      if (about.pid > 0) {
        by_place_[{about.host, about.pid, about.gpu}] = static_cast<base::Rank>(rank);
      }
    }
    std::set<base::Rank> silent;
    for (const RasCommunicator& c : status_.communicators) {
      add(c, &c == &*largest, silent);
    }
    out_.silent.assign(silent.begin(), silent.end());
    return std::move(out_);
  }

 private:
  // The global rank; negative: unknown.
  base::Rank global_rank(int64_t rank, const RasRank& about, bool largest) const {
    if (largest) {
      return static_cast<base::Rank>(rank);
    }
    const auto found = by_place_.find({about.host, about.pid, about.gpu});
    return found == by_place_.end() ? base::kNoRank : found->second;
  }

  void add(const RasCommunicator& c, bool largest, std::set<base::Rank>& silent) {
    std::map<std::string, std::pair<uint64_t, uint64_t>> range;  // least and most launched, by operation
    for (const auto& [rank, about] : c.ranks) {
      for (const auto& [operation, count] : about.launched) {
        const auto [at, is_new] = range.emplace(operation, std::pair(count, count));
        if (!is_new) {
          at->second = {std::min(at->second.first, count), std::max(at->second.second, count)};
        }
      }
    }
    std::vector<base::Rank> members(static_cast<size_t>(c.size), base::kNoRank);
    for (int64_t rank = 0; rank < c.size; ++rank) {
      const auto at = c.ranks.find(rank);
      members[static_cast<size_t>(rank)] =
          global_rank(rank, at == c.ranks.end() ? RasRank() : at->second, largest);
    }
    const Counts counts{.range = std::move(range), .most = most_called(c), .lacks_rank = lacks_rank(c)};
    const bool all_known = std::find(members.begin(), members.end(), base::kNoRank) == members.end();
    for (const auto& [rank, about] : c.ranks) {
      const base::Rank global = global_rank(rank, about, largest);
      if (global == base::kNoRank) {
        continue;
      }
      if (about.missing) {
        silent.insert(global);
        continue;
      }
      model::Communicator to{.source = model::CallSource::nccl,
                             .id = c.id,
                             .rank = static_cast<int>(rank),
                             .size = static_cast<int>(c.size)};
      if (all_known) {
        to.members = members;
      }
      count(to, about, counts);
      of(global, about.pid).communicators.push_back(std::move(to));
    }
  }

  // By rank, because a text does not say the process of most ranks.
  model::RankCollectives& of(base::Rank rank, base::Pid pid) {
    const auto [at, is_new] = places_.emplace(rank, out_.facts.ranks.size());
    if (is_new) {
      out_.facts.ranks.push_back({.rank = rank, .pid = pid});
    }
    return out_.facts.ranks[at->second];
  }

  // Of the ranks of a communicator.
  struct Counts {
    std::map<std::string, std::pair<uint64_t, uint64_t>> range;  // least and most launched, by operation
    uint64_t most = 0;                                           // collectives of one rank
    bool lacks_rank = false;                                     // a rank gave no answer
  };

  static uint64_t called_by(const RasRank& rank) {
    uint64_t out = 0;
    for (const auto& [operation, launched] : rank.launched) {
      out += is_collective(operation) ? launched : 0;
    }
    return out;
  }
  static uint64_t most_called(const RasCommunicator& c) {
    uint64_t out = 0;
    for (const auto& [number, rank] : c.ranks) {
      out = std::max(out, called_by(rank));
    }
    return out;
  }
  static bool lacks_rank(const RasCommunicator& c) {
    return std::any_of(c.ranks.begin(), c.ranks.end(), [](const auto& rank) { return rank.second.missing; });
  }

  // The latest call is of the operation of which this rank has launched more than others. Where a rank gives
  // no answer, the most advanced ranks of a job that hangs wait for that rank, in a call of an unknown
  // operation.
  static void count(model::Communicator& to, const RasRank& rank, const Counts& counts) {
    std::optional<std::string> ahead;
    size_t ways = 0;
    for (const auto& [operation, launched] : rank.launched) {
      const auto& [least, most] = counts.range.at(operation);
      if (is_collective(operation) && least != most && launched == most) {
        ahead = operation;
        ++ways;
      }
    }
    to.called = to.launched = called_by(rank);
    const bool waits = counts.lacks_rank && to.called == counts.most;
    if (to.called > 0 && (ways == 1 || waits)) {
      to.calls.push_back({.sequence = to.called,
                          .op = word_of(ways == 1 ? *ahead : "collective"),
                          .stage = CallStage::launched});
    }
    if (to.called > 0 && waits) {
      to.done = to.called - 1;
      to.done_known = true;
    }
  }

  const RasStatus& status_;
  FlightFacts out_;
  std::map<base::Rank, size_t> places_;  // in out_.facts.ranks
  std::map<std::tuple<std::string, base::Pid, int64_t>, base::Rank> by_place_;
};

}  // namespace

FlightFacts facts_of_ras(const RasStatus& status) {
  return FactsOfRas(status).take();
}

}  // namespace xpurun::report
