// Compares a verdict with the expectation of an injection. Pure.
#pragma once

#include "commands/selftest/injection.h"
#include "commands/selftest/places.h"
#include "common/model/verdict.h"

#include <span>
#include <string>
#include <vector>

namespace xpurun::launcher {

// An expectation for a job of a certain size, with its places looked up.
struct Expected {
  std::vector<std::string> ids;
  model::RankSet ranks;
  model::RankSet or_ranks = {};  // as good; empty: none
  std::vector<Place> places;
  std::vector<std::string> words;
  std::vector<std::string> evidence;
  int signal = 0;
};

Expected expected_of(const Injection& injection, Device device, int ranks, std::span<const Place> all);

// Each error of the verdict, as a sentence without a full stop; empty if the verdict is right.
std::vector<std::string> differences(const Expected& expected, const model::Verdict& given);

// "hang, rank 1, download_shard" and the like: kind, ranks and function.
std::string short_text(const Expected& expected);
std::string short_text(const model::Verdict& given);

}  // namespace xpurun::launcher
