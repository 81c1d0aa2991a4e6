// RankView: what is known of one rank at the moment of a dump, put together from the watch's observation, the
// rank's stacks and its record, and what state that makes it. Views point into the Facts they were made from.
#pragma once

#include "report/diagnosis/facts.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

using model::RankState;

struct RankView {
  base::Rank rank = base::kNoRank;
  base::Pid pid = 0;
  std::string host;
  RankState state = RankState::silent;
  std::optional<Wait> wait;   // of any kind, local ones too
  model::CodeLocation where;  // in the user's code; empty function if unknown
  double seconds = 0;         // how long it has been so
  bool debugged = false;      // stopped: by a debugger
  std::string silent_reason;  // why there are no stacks, if there are none
  const model::ProcessStacks* stacks = nullptr;
  const model::ThreadStack* thread = nullptr;  // the one that decided
  const model::RankObservation* seen = nullptr;
  const model::ProcessRecord* record = nullptr;

  bool crashed = false;                            // dead: held in our handler of its fatal signal
  const model::ThreadStack* gil_holder = nullptr;  // another thread of the process that keeps it from running
  std::vector<const model::ThreadStack*> in_acquire;  // waits for a lock of its own: all threads that do
  const model::ProcessStacks* full_pipe =
      nullptr;  // the process that cannot write; the rank itself or a child
  const model::ProcessStacks* pipe_reader = nullptr;  // who waits for its end instead of reading

  bool waits_locally() const { return wait && !waits_for_peers(wait->kind); }
};

// What a crashed thread was doing: the frames of our own handler, which lie on top where the interrupted
// state could not be read, are no part of it.
std::vector<model::Frame> crash_frames(const model::ThreadStack& thread);

// The latest process of every rank of the run (a restarted rank has several), ordered by rank.
std::vector<const model::ProcessRecord*> current_ranks(const model::RunManifest& run);

// One view per rank that the dump or the run knows, ordered by rank.
std::vector<RankView> rank_views(const Facts& facts);

}  // namespace xpurun::report
