// Input: a dump of PyTorch's Flight Recorder, pickle or JSON, or the output of NCCL's RAS. What can be read
// becomes facts that can be written and read again.
#include "common/model/json/json_text.h"
#include "report/flight_recorder/rank_facts.h"
#include "report/flight_recorder/ras_facts.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>

using namespace xpurun;

namespace {

void check_again(const model::CollectiveFacts& facts) {
  const std::string written = model::json_text(to_json(facts));
  const auto again = model::collective_facts_from_json(nlohmann::json::parse(written));
  if (!again || model::json_text(to_json(*again)) != written) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (const std::string_view text(reinterpret_cast<const char*>(data), size); report::looks_like_ras(text)) {
    if (const auto status = report::parse_ras(text)) {
      check_again(report::facts_of_ras(*status).facts);
    }
    return 0;
  }
  const auto dump = report::read_flight_dump(std::string(reinterpret_cast<const char*>(data), size));
  if (!dump) {
    return 0;
  }
  std::vector<report::RankFacts> ranks;
  for (const base::Rank rank : {0, 1}) {
    ranks.push_back(report::rank_facts(*dump, rank, rank == 0 ? 0 : 1'700'000'000'000'000'000));
  }
  report::align_point_to_point(ranks);
  report::align_ages(ranks);
  model::CollectiveFacts facts;
  for (const report::RankFacts& r : ranks) {
    facts.ranks.push_back(r.collectives);
  }
  check_again(facts);
  return 0;
}
