// Input: the calls of all ranks as a dump keeps them (collectives.json). Readable input can be judged and
// reported, and written facts read back the same.
#include "common/model/collectives.h"
#include "common/model/json/json_text.h"
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/diagnose.h"
#include "report/run/run_report.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace xpurun;

namespace {

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

std::string text_of(const model::CollectiveFacts& facts) {
  return model::json_text(to_json(facts));
}

report::Facts hang_of(const model::CollectiveFacts& calls) {
  report::Facts facts;
  facts.run.world_size = 4;
  facts.dump.emplace();
  facts.dump->why = model::DumpReason::hang;
  facts.dump_dir = "dumps/1-hang";
  for (base::Rank r = 0; r < 4; ++r) {
    model::RankObservation seen;
    seen.rank = r;
    seen.pid = 100 + r;
    seen.has_python = true;
    seen.state = 'S';
    seen.still_s = 10;
    seen.function = "all_reduce";
    seen.file = "/x/torch/distributed/distributed_c10d.py";
    facts.dump->ranks.push_back(seen);
  }
  facts.collectives = calls;
  return facts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto calls =
      model::collective_facts_from_json(nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false));
  if (!calls) {
    return 0;
  }
  const std::string written = text_of(*calls);
  const auto again = model::collective_facts_from_json(nlohmann::json::parse(written));
  require(again && text_of(*again) == written);

  const auto fault = report::find_call_fault(*calls);
  if (fault) {
    // Nobody is both to blame and a victim.
    require(fault->accused.minus(fault->waiting).size() == fault->accused.size());
  }
  const model::Verdict verdict = report::diagnose(hang_of(*calls));
  for (const std::string& line : report::evidence_lines(verdict)) {
    require(std::none_of(line.begin(), line.end(),
                         [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }));
  }
  (void)report::call_rows(verdict);
  (void)report::about_calls(verdict.collective);
  return 0;
}
