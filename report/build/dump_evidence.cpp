#include "report/build/dump_evidence.h"

#include "common/base/os/io.h"
#include "report/flight_recorder/dump_files.h"

#include <algorithm>
#include <iterator>

namespace xpurun::report {

namespace {

template <typename T>
void read(const std::string& path, base::Result<T> (*load)(const std::string&), T& into,
          std::vector<std::string>& notes) {
  if (!base::file_exists(path)) {
    return;
  }
  if (auto loaded = load(path)) {
    into = std::move(*loaded);
  } else {
    notes.push_back(base::to_line(loaded.error()));
  }
}

bool knows_torch(const model::CollectiveFacts& facts) {
  return std::any_of(facts.ranks.begin(), facts.ranks.end(), [](const model::RankCollectives& r) {
    return std::any_of(r.communicators.begin(), r.communicators.end(),
                       [](const auto& c) { return c.source == model::CallSource::torch; });
  });
}

// The facts of a rank that is known already are put beside its others.
void add(model::CollectiveFacts& facts, std::vector<model::RankCollectives> more) {
  for (model::RankCollectives& r : more) {
    const auto known = std::find_if(facts.ranks.begin(), facts.ranks.end(),
                                    [&](const model::RankCollectives& k) { return k.rank == r.rank; });
    if (known == facts.ranks.end()) {
      facts.ranks.push_back(std::move(r));
    } else {
      std::ranges::move(r.communicators, std::back_inserter(known->communicators));
    }
  }
}

}  // namespace

void read_dump_evidence(const std::string& dir, Facts& facts, std::vector<std::string>& notes) {
  read(dir + "/gpu.json", model::load_gpu_state, facts.gpus, notes);
  read(dir + "/kernel.json", model::load_kernel_events, facts.kernel, notes);
  if (knows_torch(facts.collectives)) {
    return;
  }
  const auto files = find_flight_files(dir + "/flight_recorder");
  if (files.empty()) {
    return;
  }
  FlightFacts flight = read_flight_files(files, facts.dump ? facts.dump->wall_ns : 0);
  std::ranges::move(flight.notes, std::back_inserter(notes));
  add(facts.collectives, std::move(flight.facts.ranks));
}

}  // namespace xpurun::report
