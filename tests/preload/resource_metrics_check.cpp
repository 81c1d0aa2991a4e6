// The choice of CUPTI's metrics on chips that give different ones.
#include "preload/cupti/resource_metrics.h"

#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

using namespace xpurun;
using namespace xpurun::preload::cupti;
using wire::Resource;
using wire::SamplingProblem;

namespace {

int g_failures = 0;

void check(bool ok, const char* what) {
  if (!ok) {
    std::printf("failed: %s\n", what);
    ++g_failures;
  }
}

// Gives metrics whose names contain one of these texts, at most `most` together.
struct Chip {
  std::vector<std::string> gives;
  size_t most = 100;
  size_t tries = 0;
};

bool accepts(void* context, const char** names, size_t count) {
  auto& chip = *static_cast<Chip*>(context);
  ++chip.tries;
  for (size_t i = 0; i < count; ++i) {
    bool given = false;
    for (const std::string& one : chip.gives) {
      given = given || std::strstr(names[i], one.c_str()) != nullptr;
    }
    if (!given) {
      return false;
    }
  }
  return count <= chip.most;
}

std::string text_of(const ChosenMetrics& chosen, Resource resource, size_t room = wire::kMetricText) {
  char out[wire::kMetricText];
  metrics_text(chosen, resource, out, room);
  return out;
}

void check_choice() {
  Chip all{.gives = {"Triage"}};
  const ChosenMetrics triage = choose_metrics(accepts, &all);
  check(triage.mask == 0xff, "every resource is chosen");
  check(triage.count == 10, "NVLink has two metrics a direction");
  check(all.tries == 8, "what is chosen needs no further trial");
  check(text_of(triage, Resource::nvlink_rx) ==
            "NVLRX.TriageCompute.nvlrx__bytes_packet_request_data_user.sum.per_second + "
            "NVLRX.TriageCompute.nvlrx__bytes_packet_response_data_user.sum.per_second",
        "both metrics are named");
  check(text_of(triage, Resource::nvlink_rx, 100) ==
            "NVLRX.TriageCompute.nvlrx__bytes_packet_request_data_user.sum.per_second",
        "a text without room is left out");

  Chip single{.gives = {"TPC.Triage", "dram__", "pcie__throughput", "pcie__read"}};
  const ChosenMetrics some = choose_metrics(accepts, &single);
  check(some.mask == (1U << 0 | 1U << 1 | 1U << 2 | 1U << 5 | 1U << 6), "resources that the chip has");
  check(text_of(some, Resource::dram) == "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "a later candidate takes the place of an unknown one");
  check(text_of(some, Resource::nvlink_rx).empty(), "no metric, no text");

  Chip half{.gives = {"nvlrx__bytes_packet_request"}};
  check(choose_metrics(accepts, &half).mask == 0, "half of a resource is none");
  Chip narrow{.gives = {"Triage"}, .most = 3};
  check(choose_metrics(accepts, &narrow).count == 3, "metrics that do not go together are left out");
  Chip none;
  check(choose_metrics(accepts, &none).count == 0, "a chip without metrics");

  std::set<std::string> names(triage.names, triage.names + triage.count);
  check(names.size() == triage.count, "no metric is asked for twice");
}

}  // namespace

int main() {
  check_choice();
  check(in_unit(Resource::tensor, 97) == 0.97 && in_unit(Resource::pcie, 50) == 0.5,
        "per cent become shares");
  check(in_unit(Resource::nvlink_tx, 5e9) == 5e9, "bytes a second stay");
  const std::pair<int, SamplingProblem> problems[] = {
      {26, SamplingProblem::busy},          {27, SamplingProblem::not_supported},
      {33, SamplingProblem::not_supported}, {35, SamplingProblem::no_permission},
      {40, SamplingProblem::no_permission}, {43, SamplingProblem::not_supported},
      {45, SamplingProblem::not_supported}, {46, SamplingProblem::refused},
      {999, SamplingProblem::refused},
  };
  for (const auto& [error, problem] : problems) {
    check(problem_of(error) == problem, std::to_string(error).c_str());
  }
  return g_failures == 0 ? 0 : 1;
}
