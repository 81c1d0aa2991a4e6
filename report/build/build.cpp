#include "report/build/build.h"

#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "report/build/dump_evidence.h"
#include "report/build/error_files.h"
#include "report/build/log_tail.h"
#include "report/build/stack_set.h"
#include "report/diagnosis/diagnose.h"
#include "report/flamegraph/svg.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/render/text.h"
#include "report/run/collect.h"
#include "report/run/findings.h"
#include "report/run/next_command.h"
#include "report/run/picked_dump.h"
#include "report/run/run_report.h"
#include "report/run/source_lines.h"
#include "report/tree/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace xpurun::report {

namespace {

constexpr size_t kMostOthers = 3;

// Writes files and remembers their names.
class Writer {
 public:
  base::Status write(const std::string& path, const std::string& text) {
    XPURUN_TRY(base::write_file_atomic(path, text));
    files_.push_back(path);
    return {};
  }
  std::vector<std::string> take() { return std::move(files_); }

 private:
  std::vector<std::string> files_;
};

struct StackTitles {
  std::string title;
  std::string subtitle;
};

base::Status write_stacks(Writer& writer, const std::string& out_dir, const Collected& stacks,
                          const model::RankSet& culprits, const StackTitles& titles,
                          const BuildOptions& options) {
  XPURUN_TRY(base::make_dirs(out_dir));
  // One palette for all three pictures, so that a rank set has the same look in each.
  const Palette palette(lay_out(stacks.forest, Layer::merged, {.max_boxes = options.max_boxes}),
                        stacks.forest.ranks(), culprits);
  base::Progress progress("drawing", std::size(kLayers));
  for (Layer layer : kLayers) {
    const Layout layout = lay_out(stacks.forest, layer, {.max_boxes = options.max_boxes});
    const std::string path = fmt::format("{}/{}", out_dir, name_of(layer));
    XPURUN_TRY(writer.write(
        path + ".svg",
        svg_file(layout, palette, {.layer = layer, .title = titles.title, .subtitle = titles.subtitle})));
    XPURUN_TRY(writer.write(path + ".folded", folded_text(stacks.forest, layer)));
    progress.advance();
  }
  return writer.write(out_dir + "/stacks.txt",
                      stacks_text(fmt::format("{}. {}", titles.title, titles.subtitle), stacks.forest,
                                  stacks.classes.classes()));
}

std::vector<DumpSummary> summarise_dumps(const model::RunDir& dir, const std::string& picked,
                                         const Collected& collected) {
  std::vector<DumpSummary> out;
  for (const std::string& path : dir.dumps()) {
    DumpSummary d{.dir = fmt::format("dumps/{}", base::base_name(path))};
    if (auto manifest = model::load_dump_manifest(path + "/dump.json")) {
      d.manifest = std::move(*manifest);
    }
    if (d.dir == picked) {
      d.processes = collected.processes;
    } else if (d.manifest) {
      // Of other dumps the manifest's summary is enough; their stacks are not read.
      for (const model::DumpedProcess& p : d.manifest->processes) {
        d.processes.push_back({.rank = p.rank,
                               .pid = p.pid,
                               .host = d.manifest->host,
                               .role = p.role,
                               .status = p.status,
                               .reason = p.reason,
                               .pause_ns = p.pause_ns});
      }
    }
    out.push_back(std::move(d));
  }
  return out;
}

// The latest dumps beside the picked one, for comparing; only their stacks are read.
std::vector<OtherDump> other_dumps(const model::RunDir& dir, const std::string& picked) {
  std::vector<OtherDump> out;
  std::vector<std::string> on_disk = dir.dumps();
  for (auto it = on_disk.rbegin(); it != on_disk.rend() && out.size() < kMostOthers; ++it) {
    std::string name = fmt::format("dumps/{}", base::base_name(*it));
    if (name != picked && !stack_files_in(*it).empty()) {
      out.push_back({.dir = std::move(name), .forest = collect({*it}, Keep::nothing).forest});
    }
  }
  return out;
}

// A directory without the file is one of a job that made no calls, or of an older version.
model::CollectiveFacts calls_in(const std::string& directory, std::vector<std::string>& notes) {
  const std::string path = fmt::format("{}/{}", directory, model::kCollectivesFile);
  if (!base::file_exists(path)) {
    return {};
  }
  auto facts = model::load_collective_facts(path);
  if (!facts) {
    notes.push_back(base::to_line(facts.error()));
    return {};
  }
  return std::move(*facts);
}

model::CollectiveFacts recorded_calls(const model::RunDir& dir, const std::string& dump,
                                      const std::optional<model::DumpManifest>& manifest,
                                      std::vector<std::string>& notes) {
  model::CollectiveFacts calls = calls_in(dir.file(dump), notes);
  if (manifest && (manifest->why == model::DumpReason::crash || manifest->why == model::DumpReason::death)) {
    add_later_calls(calls, calls_in(dir.path(), notes));
  }
  return calls;
}

// The log of the first culprit, relative to the run directory; empty without --logs.
std::string culprit_log(const model::RunDir& dir, const model::Verdict& verdict) {
  if (verdict.ranks.empty()) {
    return "";
  }
  const std::string folder = fmt::format("ranks/{}", verdict.ranks.ranks().front());
  for (const char* name : {"stderr.log", "stdout.log"}) {
    std::error_code ec;
    std::string log = fmt::format("{}/{}", folder, name);
    if (const auto size = std::filesystem::file_size(dir.file(log), ec); !ec && size > 0) {
      return log;
    }
  }
  return "";
}

// The supervisor masks what it writes. A run.json of an older xpurun, or of another program, is masked here.
void mask_secrets(model::RunManifest& run) {
  model::KeptEnvironment kept = model::keep_environment(run.env);
  run.env = std::move(kept.values);
  run.env_names.insert(run.env_names.end(), kept.names.begin(), kept.names.end());
  std::sort(run.env_names.begin(), run.env_names.end());
  run.command = model::redact_argv(run.command);
  for (model::ProcessRecord& process : run.processes) {
    process.cmdline = model::redact_argv(process.cmdline);
  }
}

}  // namespace

base::Result<BuildResult> build_report(const model::RunDir& dir, const BuildOptions& options) {
  BuildResult result;
  XPURUN_TRY_ASSIGN(LoadedRun loaded, load_run(dir));
  model::RunManifest run = std::move(loaded.run);
  result.notes = std::move(loaded.notes);
  mask_secrets(run);
  add_error_files(dir, run);
  const auto [picked, evidence] = pick_dump(dir, run);
  Collected collected = collect(picked.empty() ? std::vector<std::string>() : std::vector{dir.file(picked)});
  std::vector<DumpSummary> dumps = summarise_dumps(dir, picked, collected);
  std::optional<model::DumpManifest> manifest;
  for (const DumpSummary& d : dumps) {
    if (d.dir == picked) {
      manifest = d.manifest;
    }
  }

  Facts facts{.run = run};
  if (evidence) {
    facts.dump = manifest;
    facts.stacks = std::move(collected.stacks);
    facts.dump_dir = picked;
    facts.collectives = recorded_calls(dir, picked, manifest, result.notes);
    read_dump_evidence(dir.file(picked), facts, result.notes);
  }
  result.verdict = diagnose(facts);
  add_log_tail(result.verdict, read_log_tail(dir, run, result.verdict));
  if (options.on_verdict) {
    options.on_verdict(result.verdict);
  }
  result.notes.insert(result.notes.end(), collected.notes.begin(), collected.notes.end());

  Writer writer;
  XPURUN_TRY(writer.write(dir.verdict_json(), verdict_json(result.verdict)));
  const std::string about =
      picked.empty() ? fmt::format("{}, no dump was taken", run.id) : fmt::format("{}, {}", run.id, picked);
  if (options.write_stacks && !picked.empty()) {
    XPURUN_TRY(base::make_own_dir(dir.stacks_dir()));
    XPURUN_TRY(write_stacks(writer, dir.stacks_dir(), collected, result.verdict.ranks,
                            {.title = ranks_title(collected), .subtitle = about}, options));
  }
  std::vector<RankRow> rows = rank_rows(run, result.verdict, manifest, collected);
  std::string log = culprit_log(dir, result.verdict);
  std::string typed = typed_path(dir.path(), run.cwd);
  RunReport report{.dir = std::move(typed),
                   .culprit_log = std::move(log),
                   .run = std::move(run),
                   .verdict = result.verdict,
                   .dump = picked,
                   .classes = collected.classes.classes(),
                   .ranks = std::move(rows),
                   .calls = call_rows(result.verdict),
                   .calls_about = about_calls(result.verdict.collective),
                   .forest = std::move(collected.forest),
                   .others = other_dumps(dir, picked),
                   .dumps = std::move(dumps),
                   .notes = result.notes};
  report.findings = find_findings(report);
  base::Progress progress("writing the report", 3);
  if (options.source_lines) {
    add_source_lines(report.classes);
  }
  progress.advance();
  XPURUN_TRY(writer.write(dir.report_json(), report_json(report, JsonLayout::indented)));
  progress.advance();
  if (options.write_html) {
    XPURUN_TRY(writer.write(dir.report_html(), report_html(report)));
  }
  progress.advance();
  result.files = writer.take();
  return result;
}

base::Result<BuildResult> build_stacks(const std::string& dir, const std::string& out_dir,
                                       const BuildOptions& options) {
  XPURUN_TRY_ASSIGN(const StackSet set, read_stack_set({dir}, Keep::nothing));
  return write_stack_set(set, out_dir, options);
}

base::Result<BuildResult> write_stack_set(const StackSet& set, const std::string& out_dir,
                                          const BuildOptions& options) {
  BuildResult result;
  result.notes = set.notes;
  Writer writer;
  XPURUN_TRY(write_stacks(writer, out_dir, set.collected, {},
                          {.title = ranks_title(set.collected), .subtitle = set.about}, options));
  result.files = writer.take();
  return result;
}

}  // namespace xpurun::report
