// Input, separated by NUL bytes: nodes.json, run.json of this node, run.json of another node, and what both
// have recorded of their calls (collectives.json). Whatever can be read is put together, judged and rendered.
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "report/diagnosis/diagnose.h"
#include "report/nodes/job_dump.h"
#include "report/nodes/merged_run.h"
#include "report/render/json.h"
#include "report/render/terminal.h"
#include "report/run/findings.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace xpurun;
using nlohmann::json;

namespace {

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

void check_bytes(const std::string& text) {
  require(std::none_of(text.begin(), text.end(),
                       [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }));
}

std::string_view part_of(std::string_view text, size_t n) {
  const auto parts = base::split(text, '\0');
  return n < parts.size() ? parts[n] : std::string_view();
}

template <typename T>
std::optional<T> read(std::string_view text, base::Result<T> (*from_json)(const json&)) {
  auto value = from_json(model::parse_json(text));
  return value ? std::optional<T>(std::move(*value)) : std::nullopt;
}

report::JobRuns job_of(std::string_view text) {
  report::JobRuns job;
  const auto listed = read(part_of(text, 0), model::nodes_from_json);
  for (size_t i = 0; i < 2; ++i) {
    const auto run = read(part_of(text, 1 + i), model::run_manifest_from_json);
    report::NodeRun node{.label = i == 0 ? "" : "nodes/b/", .answered = run.has_value()};
    node.run = run.value_or(model::RunManifest());
    if (listed && i < listed->nodes.size()) {
      node.entry = listed->nodes[i];
    }
    job.nodes.push_back(std::move(node));
  }
  return job;
}

// Each rank is owned by one node, and what is not disputed is there.
void check_owners(const report::JobRuns& job, const report::RankOwners& owners,
                  const model::RunManifest& run) {
  require(run.nodes.size() == job.nodes.size());
  for (const model::ProcessRecord& p : run.processes) {
    require(p.node < job.nodes.size() && !owners.disputed(p.node, p.rank));
    require(p.role != model::ProcessRole::rank || p.rank < 0 ||
            !(owners.owns(0, p.rank) && owners.owns(1, p.rank)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto listed = read(part_of(text, 0), model::nodes_from_json)) {
    const std::string written = model::json_text(to_json(*listed));
    const auto again = read(written, model::nodes_from_json);
    require(again && model::json_text(to_json(*again)) == written);
  }
  const report::JobRuns job = job_of(text);
  const std::vector<double> shifts = report::shifts_of(job);
  const report::RankOwners owners(job, shifts);
  report::Facts facts{.run = merge_runs(job, owners)};
  check_owners(job, owners, facts.run);
  for (size_t i = 0; i < 2; ++i) {
    if (auto calls = read(part_of(text, 3 + i), model::collective_facts_from_json)) {
      add_calls_of(std::move(*calls), {.node = i}, shifts[i], owners, facts.collectives);
    }
  }
  report::complete_members(facts.collectives);
  report::dump_that_matters(facts.run);
  report::RunReport r{.run = facts.run};
  r.verdict = report::diagnose(facts);
  for (const std::string& line : report::evidence_lines(r.verdict)) {
    check_bytes(line);
  }
  r.ranks = report::rank_rows(r.run, r.verdict, std::nullopt, {});
  r.nodes = report::node_rows(r.run, r.ranks);
  r.findings = report::find_findings(r);
  const auto shown = report::terminal_text(report_json(r, report::JsonLayout::one_line), {});
  require(shown.has_value());
  check_bytes(*shown);
  return 0;
}
