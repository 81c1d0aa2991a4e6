// The wording of sentences and evidence.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/verdict.h"
#include "report/diagnosis/rank_view.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

using Views = std::vector<const RankView*>;

Views pointers_to(const std::vector<RankView>& views);
model::RankSet ranks_of(const Views& views);

// "rank 2", "ranks 0-1,3"; a list with many gaps is cut
std::string rank_words(const model::RankSet& ranks);

// Names a set of ranks, with the host where that adds information: "rank 5 (host b)".
using RankNamer = std::function<std::string(const model::RankSet&)>;

// The clauses with "; " between them. As half a sentence says nothing, whole clauses are left out of the end
// of a line that would take more than about four lines of a wide terminal.
std::string joined_clauses(const std::vector<std::string>& clauses);

// "load_batch (train.py:31: time.sleep)"; "an unknown place" if nothing is known.
std::string place(const model::CodeLocation& where);
// "all_reduce (train.py:44)", "backward (all_reduce) at train.py:44"
std::string waiting_place(std::string_view what, const model::CodeLocation& where);
// "train.py:44", or empty
std::string short_place(const model::CodeLocation& where);

// A verb in singular and plural.
struct Verb {
  std::string_view one;
  std::string_view many;
};
std::string_view pick(Verb verb, size_t n);

// Whether the time of day of that moment is known.
bool knows_clock(const model::RunManifest& run, double at_s);
// "14:03:12 UTC", with the date where the run lasts long; the time of its start must be known.
std::string utc_words(const model::RunManifest& run, double at_s, int decimals = 0);
// "at 14:03:12.97 UTC (29 s in)"; with the date half a day after the start or later; "at 28.97 s" if the run
// does not know its start. `at_s`: seconds since the start.
std::string moment_words(const model::RunManifest& run, double at_s, int decimals = 0);
// "after 12 s (14:03:12 UTC)"; without the time of day where it is not known.
std::string after_words(const model::RunManifest& run, double at_s);
// Seconds since the run began.
double seconds_in(const model::RunManifest& run, int64_t wall_ns);
// "rank 1 ran without xpurun's library, ...", with the cure.
std::string lost_preload_words(const model::RankSet& ranks);
// Full seconds above one: "10 s", "0.4 s".
std::string seconds_words(double seconds);

// The advice for a wait that may be healthy.
std::string raise_timeout_words(double timeout_s);

// Groups of waiting ranks, largest first: same operation and same call site, where the site is known.
std::vector<model::Waiting> waiting_groups(const Views& waiting);
// "ranks 0-1,3 wait for it in all_reduce (train.py:44)"; `them` for several culprits. Empty if no rank waits.
std::string waiting_clause(const std::vector<model::Waiting>& groups, size_t culprits);

}  // namespace xpurun::report
