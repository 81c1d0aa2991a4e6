#include "report/build.h"

#include "common/base/io.h"
#include "common/base/strings.h"
#include "common/model/redact.h"
#include "report/collect.h"
#include "report/diagnosis/diagnose.h"
#include "report/findings.h"
#include "report/flamegraph/svg.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/render/text.h"
#include "report/run_report.h"
#include "report/source_lines.h"
#include "report/tree/folded.h"

#include <fmt/format.h>

#include <algorithm>

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
  // One palette for all three pictures: a set of ranks looks the same in each.
  const Palette palette(lay_out(stacks.forest, Layer::merged, {.max_boxes = options.max_boxes}),
                        stacks.forest.ranks(), culprits);
  for (Layer layer : kLayers) {
    const Layout layout = lay_out(stacks.forest, layer, {.max_boxes = options.max_boxes});
    const std::string path = fmt::format("{}/{}", out_dir, name_of(layer));
    XPURUN_TRY(writer.write(
        path + ".svg",
        svg_file(layout, palette, {.layer = layer, .title = titles.title, .subtitle = titles.subtitle})));
    XPURUN_TRY(writer.write(path + ".folded", folded_text(stacks.forest, layer)));
  }
  return writer.write(out_dir + "/stacks.txt",
                      stacks_text(fmt::format("{}. {}", titles.title, titles.subtitle), stacks.forest,
                                  stacks.classes.classes()));
}

std::string ranks_title(const Collected& stacks) {
  const size_t n = stacks.forest.ranks().size();
  return n == 0 ? fmt::format("Stacks of {} processes", stacks.processes.size())
                : fmt::format("Stacks of {} rank{}", n, n == 1 ? "" : "s");
}

struct PickedDump {
  std::string shown;      // whose stacks the report shows, "dumps/1-hang"; empty without any dump
  bool evidence = false;  // the verdict may rest on it
};

// The one that the verdict rests on; failing that the last one on disk, which may be a dump on request that
// says nothing about how the run ended, or one that a killed supervisor had no time to note.
PickedDump pick_dump(const model::RunDir& dir, const model::RunManifest& run) {
  const std::string named = dump_that_matters(run);
  if (!named.empty() && base::file_exists(dir.file(named))) {
    return {.shown = named, .evidence = true};
  }
  const std::vector<std::string> on_disk = dir.dumps();
  if (on_disk.empty()) {
    return {};
  }
  std::string last = fmt::format("dumps/{}", base::base_name(on_disk.back()));
  const bool noted = std::any_of(run.dumps.begin(), run.dumps.end(),
                                 [&last](const model::DumpRecord& d) { return d.dir == last; });
  return {.shown = std::move(last), .evidence = run.outcome == "running" && !noted};
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

// A run.json that was cut off still leaves dumps to report on.
base::Result<model::RunManifest> load_run(const model::RunDir& dir, std::vector<std::string>& notes) {
  if (!base::file_exists(dir.run_json())) {
    return base::fail(base::Error{.what = fmt::format("{} is no run directory", dir.path()),
                                  .id = "E-NO-RUN",
                                  .cause = "it holds no file run.json",
                                  .hint = fmt::format("xpurun stacks {}", base::shell_quote(dir.path()))});
  }
  auto run = model::load_run_manifest(dir.run_json());
  if (run) {
    return run;
  }
  notes.push_back(base::to_line(run.error()));
  model::RunManifest empty;
  empty.id = dir.id();
  return empty;
}

}  // namespace

base::Result<BuildResult> build_report(const model::RunDir& dir, const BuildOptions& options) {
  BuildResult result;
  XPURUN_TRY_ASSIGN(model::RunManifest run, load_run(dir, result.notes));
  // The supervisor masks what it writes; a run.json from elsewhere is masked here.
  run.env = model::redact_env(run.env);
  run.command = model::redact_argv(run.command);
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
  }
  result.verdict = diagnose(facts);
  result.notes.insert(result.notes.end(), collected.notes.begin(), collected.notes.end());

  Writer writer;
  XPURUN_TRY(writer.write(dir.verdict_json(), verdict_json(result.verdict)));
  const std::string about =
      picked.empty() ? fmt::format("{}, no dump was taken", run.id) : fmt::format("{}, {}", run.id, picked);
  if (options.write_stacks && !picked.empty()) {
    XPURUN_TRY(write_stacks(writer, dir.stacks_dir(), collected, result.verdict.ranks,
                            {.title = ranks_title(collected), .subtitle = about}, options));
  }
  std::vector<RankRow> rows = rank_rows(run, result.verdict, manifest, collected);
  RunReport report{.run = std::move(run),
                   .verdict = result.verdict,
                   .dump = picked,
                   .classes = collected.classes.classes(),
                   .ranks = std::move(rows),
                   .forest = std::move(collected.forest),
                   .others = other_dumps(dir, picked),
                   .dumps = std::move(dumps),
                   .notes = result.notes};
  report.findings = find_findings(report);
  if (options.source_lines) {
    add_source_lines(report.classes);
  }
  XPURUN_TRY(writer.write(dir.report_json(), report_json(report, JsonLayout::indented)));
  if (options.write_html) {
    XPURUN_TRY(writer.write(dir.report_html(), report_html(report)));
  }
  result.files = writer.take();
  return result;
}

base::Result<BuildResult> build_stacks(const std::string& dir, const std::string& out_dir,
                                       const BuildOptions& options) {
  BuildResult result;
  DumpDirs found;
  // In a run directory the dump that the verdict rests on is meant.
  if (const model::RunDir run_dir(dir); base::file_exists(run_dir.run_json())) {
    if (const auto run = load_run(run_dir, result.notes)) {
      if (const PickedDump picked = pick_dump(run_dir, *run); !picked.shown.empty()) {
        found.dirs.push_back(run_dir.file(picked.shown));
      }
    }
  } else {
    found = find_dump_dirs(dir);
  }
  if (found.dirs.empty()) {
    return base::fail(base::Error{.what = fmt::format("no stacks below {}", dir),
                                  .id = "E-NO-STACKS",
                                  .cause = fmt::format("no file there is named *{}", model::kStacksSuffix),
                                  .hint = "xpurun stacks --run latest"});
  }
  const Collected collected = collect(found.dirs, Keep::nothing);
  for (const auto& notes : {found.notes, collected.notes}) {
    result.notes.insert(result.notes.end(), notes.begin(), notes.end());
  }
  Writer writer;
  XPURUN_TRY(write_stacks(writer, out_dir, collected, {},
                          {.title = ranks_title(collected), .subtitle = base::sanitize(dir)}, options));
  result.files = writer.take();
  return result;
}

}  // namespace xpurun::report
