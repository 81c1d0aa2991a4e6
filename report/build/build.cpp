#include "report/build/build.h"

#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/documents/document_text.h"
#include "common/model/secrets/kept_environment.h"
#include "common/model/secrets/redact.h"
#include "report/build/dump_evidence.h"
#include "report/build/error_files.h"
#include "report/build/log_tail.h"
#include "report/build/pipeline_files.h"
#include "report/build/speed_files.h"
#include "report/build/stack_set.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/wording.h"
#include "report/flamegraph/svg.h"
#include "report/memory/look_files.h"
#include "report/nodes/job_dump.h"
#include "report/nodes/job_runs.h"
#include "report/nodes/merged_run.h"
#include "report/render/html.h"
#include "report/render/json.h"
#include "report/render/parts/text.h"
#include "report/render/speed/spoken_speed.h"
#include "report/run/collect.h"
#include "report/run/findings.h"
#include "report/run/next_command.h"
#include "report/run/run_report.h"
#include "report/run/source_text.h"
#include "report/timeline/page/page_timeline.h"
#include "report/tree/folded.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

namespace xpurun::report {

namespace {

constexpr size_t kMostOthers = 3;
constexpr double kStillNowS = 1;    // counts as still for judge_now()
constexpr size_t kMostNotes = 100;  // of one kind

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

ProcessLine line_of(const model::DumpManifest& dump, const model::DumpedProcess& p) {
  return {.rank = p.rank,
          .pid = p.pid,
          .host = p.host.empty() ? dump.host : p.host,
          .role = p.role,
          .status = p.status,
          .reason = p.reason,
          .pause_ns = p.pause_ns};
}

std::vector<DumpSummary> summarise_dumps(const model::RunDir& dir, const JobDump& dump,
                                         const std::optional<model::DumpManifest>& merged,
                                         const Collected& collected) {
  std::vector<DumpSummary> out;
  if (!dump.shown.empty()) {
    out.push_back({.dir = dump.shown, .manifest = merged, .processes = collected.processes});
  }
  for (const std::string& path : dir.dumps()) {
    DumpSummary d{.dir = fmt::format("dumps/{}", base::base_name(path))};
    if (d.dir == dump.shown) {
      std::rotate(out.begin(), out.begin() + 1, out.end());  // in the order of their numbers
      continue;
    }
    if (auto manifest = model::load_dump_manifest(path + "/dump.json")) {
      d.manifest = std::move(*manifest);
      // Of other dumps the manifest's summary is enough; their stacks are not read.
      for (const model::DumpedProcess& p : d.manifest->processes) {
        d.processes.push_back(line_of(*d.manifest, p));
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

// The node whose rank is the first culprit; this node if there is no culprit.
size_t node_of_culprit(const model::RunManifest& run, const model::Verdict& verdict) {
  for (size_t n = 0; n < run.nodes.size(); ++n) {
    if (!verdict.ranks.empty() && run.nodes[n].ranks.contains(verdict.ranks.lowest())) {
      return n;
    }
  }
  return 0;
}

// The log of the first culprit: kept by --logs, or on this node a file of the job.
std::string culprit_log(const NodeRun& node, size_t number, const model::Verdict& verdict) {
  if (verdict.ranks.empty() || node.path.empty()) {
    return "";
  }
  const std::string folder = fmt::format("{}/ranks/{}", node.path, verdict.ranks.lowest());
  for (const char* name : {"stderr.log", "stdout.log"}) {
    std::error_code ec;
    std::string log = fmt::format("{}/{}", folder, name);
    if (const auto size = std::filesystem::file_size(log, ec); !ec && size > 0) {
      return log;
    }
  }
  const model::LogTail& tail = verdict.log_tail;
  return number == 0 && tail.file.starts_with('/') && !tail.lines.empty() ? tail.file : std::string();
}

// The directory with the stacks of the first culprit.
std::string culprit_dump(const JobDump& dump, size_t node) {
  const auto part = std::find_if(dump.parts.begin(), dump.parts.end(),
                                 [node](const DumpPart& p) { return p.node == node; });
  return part == dump.parts.end() ? std::string() : part->path;
}

// The supervisor masks secrets before it writes. A run.json of an older xpurun, or of another program, is
// masked here.
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

// Damaged or hostile data of many nodes must not make a report of nothing but notes.
void add_some(const std::vector<std::string>& more, std::vector<std::string>& notes) {
  const size_t shown = std::min(more.size(), kMostNotes);
  notes.insert(notes.end(), more.begin(), more.begin() + static_cast<std::ptrdiff_t>(shown));
  if (more.size() > shown) {
    notes.push_back(fmt::format("and {} more like these", more.size() - shown));
  }
}

std::vector<DumpSource> sources_of(const JobDump& dump, const RankOwners& owners) {
  std::vector<DumpSource> out;
  for (const DumpPart& part : dump.parts) {
    out.push_back({.dir = part.path, .counts = [&owners, node = part.node](base::Rank rank) {
                     return owners.owns(node, rank);
                   }});
  }
  return out;
}

// The data of the job, and the verdict on it.
struct Judged {
  JobRuns job;
  JobDump dump;
  Collected collected;
  Facts facts;
  std::vector<model::GpuHealth> gpu_health;     // by node of the job
  std::optional<model::DumpManifest> manifest;  // of the shown dump, even if it is no evidence
  model::Verdict spoken;                        // the verdict in the language of the page
  std::optional<SpeedOfRun> speed;              // of a job that ended well; else not read yet
};

void read_memory(const JobRuns& job, Facts& facts, std::vector<std::string>& notes) {
  std::vector<std::string> directories;
  for (const NodeRun& node : job.nodes) {
    if (!node.path.empty()) {
      directories.push_back(node.path);
    }
  }
  constexpr size_t kMostLookBytes = size_t{32} << 20;  // so that a verdict on many ranks does not wait
  LookFiles files = read_looks(directories, kMostLookBytes);
  facts.memory = std::move(files.looks);
  add_some(files.notes, notes);
}

Judged judge(JobRuns runs, const BuildOptions& options, BuildResult& result) {
  const base::Language language = options.language;
  Judged out{.job = std::move(runs)};
  out.facts.steps_only = options.steps_only;
  // Files elsewhere than in the run directory can be read on this node only.
  add_error_files(model::RunDir(out.job.nodes.front().path), out.job.nodes.front().run);
  const JobRuns& job = out.job;
  result.notes = job.notes;
  const RankOwners owners(job, shifts_of(job));
  add_some(owners.notes(), result.notes);
  out.facts.run = merge_runs(job, owners);
  mask_secrets(out.facts.run);
  out.gpu_health = read_gpu_health(job, result.notes);
  out.facts.machines = read_machines(job, out.gpu_health, result.notes);
  out.dump = pick_job_dump(job, out.facts.run);
  MergedDump merged = merge_dumps(job, out.facts.run, owners, out.dump);
  out.collected =
      collect_from(sources_of(out.dump, owners), Keep::diagnosed_threads, std::move(merged.absent));
  out.manifest = std::move(merged.manifest);
  if (out.dump.evidence) {
    out.facts.dump = out.manifest;
    if (out.facts.run.judged_now && out.facts.dump) {
      out.facts.dump->hang_timeout_s = std::min(out.facts.dump->hang_timeout_s, kStillNowS);
    }
    out.facts.stacks = std::move(out.collected.stacks);
    out.facts.dump_dir = out.dump.shown;
    read_dump_evidence(job, out.dump, owners, out.facts, result.notes);
  }
  read_evidence_of_end(job, out.dump, out.facts, result.notes);
  read_mismatches(job, owners, out.facts, result.notes);
  read_memory(job, out.facts, result.notes);
  // Who ended well, or was interrupted without a stall, may have been slow. Other verdicts come first, so
  // that they do not wait for the files.
  const model::RunManifest& run = out.facts.run;
  const bool ended_well = run.outcome == model::RunOutcome::exit && run.child_status.succeeded();
  if (ended_well) {
    read_calls_at_end(job, owners, out.facts, result.notes);
  }
  if (ended_well || options.steps_only ||
      (run.outcome == model::RunOutcome::interrupted && !out.dump.evidence)) {
    out.speed = read_speed(job, {.language = language});
    out.facts.measured = out.speed->ranks > 0;
    out.facts.slow = out.speed->report.findings;
    out.facts.pauses = out.speed->report.stage_pauses;
  }
  const auto of_job =
      !job.several() || job.handed ? verdict_of_job(job.nodes.front().run) : std::optional<model::Verdict>();
  if (!of_job || job.several()) {
    result.verdict = diagnose(out.facts);
    out.spoken = diagnose_in(language, out.facts, result.verdict);
  }
  // Made again from what all nodes have sent, the same verdict names files of this directory.
  if (of_job && of_job->sentence != result.verdict.sentence) {
    result.verdict = out.spoken = *of_job;
    const base::Speaking speaking(language);
    out.spoken.sentence = sentence_of(*of_job);
  }
  std::vector<std::string> directories;
  for (const NodeRun& node : job.nodes) {
    directories.push_back(node.path);
  }
  const TailOfRank tail = read_log_tail(directories, out.facts.run, result.verdict);
  add_log_tail(result.verdict, tail);
  {
    const base::Speaking speaking(language);
    add_log_tail(out.spoken, tail);
  }
  add_some(out.collected.notes, result.notes);
  return out;
}

// Lines of the run come before those of this host.
base::Status add_source(RunReport& report, const JobRuns& job, const model::RunDir& out, SourceLines use) {
  SourceText text;
  for (const NodeRun& node : job.nodes) {
    if (!node.path.empty()) {
      if (const auto record = model::load_source_record(model::RunDir(node.path).source_json())) {
        text.add(*record);
      }
    }
  }
  const std::vector<CulpritPlace> places = culprit_places(report.verdict, report.run, report.classes);
  if (use == SourceLines::read) {
    read_source(text, places, report.classes, report.run);
    if (!text.empty()) {
      XPURUN_TRY(base::write_file_atomic(out.source_json(), model::document_text(text.record(), 1) + "\n"));
    }
  }
  add_source_lines(text, report.classes);
  report.source = excerpts(text, places);
  return {};
}

void add_picture(RunReport& report, const JobRuns& job, base::Language language) {
  std::vector<std::string> directories;
  for (const NodeRun& node : job.nodes) {
    if (!node.path.empty()) {
      directories.push_back(node.path);
    }
  }
  const base::Speaking speaking(language);
  PageTimeline timeline = page_timeline(directories, {.first = report.verdict.ranks});
  report.picture = {
      .about = std::move(timeline.about), .json = std::move(timeline.json), .svg = std::move(timeline.svg)};
  for (const TrackKind kind : timeline.kinds) {
    report.picture.kinds.push_back({std::string(model::name_of(kind)), word_of_row(kind)});
  }
}

// The parts of a report that are words, apart from its findings.
struct Words {
  std::vector<RankRow> ranks;
  std::vector<NodeRow> nodes;
  std::vector<CallRow> calls;
  std::string calls_about;
};

Words words_of(const Judged& judged, const model::Verdict& verdict) {
  Words out{.ranks = rank_rows(judged.facts.run, verdict, judged.manifest, judged.collected)};
  out.nodes = node_rows(judged.facts.run, out.ranks);
  out.calls = call_rows(verdict);
  out.calls_about = about_calls(verdict.collective);
  return out;
}

void put_words(RunReport& report, Words words, model::Verdict verdict) {
  report.verdict = std::move(verdict);
  report.nodes = std::move(words.nodes);
  report.ranks = std::move(words.ranks);
  report.calls = std::move(words.calls);
  report.calls_about = std::move(words.calls_about);
  report.tracebacks = tracebacks_of(report.run, report.verdict);
  report.findings = find_findings(report);
}

// Where the files of the run are, in the words of the person who started the run.
struct Places {
  std::string dir;
  std::string culprit_log;
  std::string culprit_dump;
  std::vector<std::string> dump_parts;
};

Places places_of(const Judged& judged, const model::Verdict& verdict) {
  const model::RunManifest& run = judged.facts.run;
  const auto typed = [&run](const std::string& path) {
    return path.empty() ? path : typed_path(path, run.cwd);
  };
  const size_t culprit = node_of_culprit(run, verdict);
  const bool elsewhere = !judged.job.several() && is_culprit_elsewhere(run, verdict);
  Places out{.dir = typed(model::RunDir(judged.job.nodes.front().path).path()),
             .culprit_log = typed(culprit_log(judged.job.nodes[culprit], culprit, verdict)),
             .culprit_dump = elsewhere ? "" : typed(culprit_dump(judged.dump, culprit))};
  for (const DumpPart& part : judged.dump.parts) {
    out.dump_parts.push_back(typed(part.path));
  }
  return out;
}

void complete_next_steps(Judged& judged, const Places& places, const std::string& page,
                         base::Language language, model::Verdict& verdict) {
  const RunReport about{.dir = places.dir,
                        .culprit_log = places.culprit_log,
                        .culprit_dump = places.culprit_dump,
                        .run = judged.facts.run,
                        .verdict = verdict,
                        .dump = judged.dump.shown,
                        .dump_parts = places.dump_parts};
  complete_next_step(about, page, verdict);
  const base::Speaking speaking(language);
  complete_next_step(about, page, judged.spoken);
}

base::Status write_stack_files(Writer& writer, const Judged& judged, const model::RunDir& out,
                               const model::Verdict& verdict, const BuildOptions& options) {
  if (!options.write_stacks || judged.dump.shown.empty()) {
    return {};
  }
  XPURUN_TRY(base::make_own_dir(out.stacks_dir()));
  return write_stacks(writer, out.stacks_dir(), judged.collected, verdict.ranks,
                      {.title = ranks_title(judged.collected),
                       .subtitle = fmt::format("{}, {}", judged.facts.run.id, judged.dump.shown)},
                      options);
}

// The classes with the culprits first.
std::vector<StackClass> ordered_classes(const Collected& collected, const model::Verdict& verdict) {
  std::vector<StackClass> classes = collected.classes.classes();
  std::stable_partition(classes.begin(), classes.end(), [&verdict](const StackClass& c) {
    return !verdict.ranks.empty() && verdict.ranks.contains(c.ranks);
  });
  return classes;
}

// All but the words and the lines of source. Takes what the judged run holds.
RunReport start_report(Judged& judged, Places places, const BuildResult& result,
                       const BuildOptions& options) {
  const model::RunDir here(judged.job.nodes.front().path);
  std::vector<DumpSummary> dumps = summarise_dumps(here, judged.dump, judged.manifest, judged.collected);
  const std::string& picked = judged.dump.shown;
  RunReport report{.dir = std::move(places.dir),
                   .culprit_log = std::move(places.culprit_log),
                   .culprit_dump = std::move(places.culprit_dump),
                   .verdict = result.verdict,
                   .dump = picked,
                   .classes = ordered_classes(judged.collected, result.verdict),
                   .forest = std::move(judged.collected.forest),
                   .others = judged.job.several() ? std::vector<OtherDump>() : other_dumps(here, picked),
                   .dumps = std::move(dumps),
                   .notes = result.notes};
  report.dump_parts = std::move(places.dump_parts);
  if (options.write_html) {
    add_picture(report, judged.job, options.language);
  }
  report.run = std::move(judged.facts.run);
  report.gpus = std::move(judged.facts.gpus);
  report.kernel = std::move(judged.facts.kernel);
  report.kernel_gap = std::move(judged.facts.kernel_gap);
  report.machines = std::move(judged.facts.machines);
  report.gpu_health = std::move(judged.gpu_health);
  report.memory = std::move(judged.facts.memory);
  if (!judged.speed) {
    judged.speed = read_speed(judged.job, {.language = options.language});
  }
  if (SpeedOfRun& speed = *judged.speed; speed.ranks > 0) {
    add_some(speed.notes, report.notes);
    report.speed = std::move(speed.report);
    add_pipeline(report, judged.job, options.language);
  }
  return report;
}

base::Result<BuildResult> build(JobRuns runs, const model::RunDir& out, const BuildOptions& options) {
  BuildResult result;
  Judged judged = judge(std::move(runs), options, result);
  Places places = places_of(judged, result.verdict);
  const std::string page = options.write_html && !options.verdict_only
                               ? typed_path(out.report_html(), judged.facts.run.cwd)
                               : std::string();
  complete_next_steps(judged, places, page, options.language, result.verdict);
  if (options.on_verdict) {
    options.on_verdict(result.verdict, judged.spoken);
  }
  if (options.steps_only) {
    return result;
  }
  Writer writer;
  XPURUN_TRY(writer.write(out.verdict_json(), verdict_json(result.verdict)));
  if (options.verdict_only) {
    result.files = writer.take();
    return result;
  }
  XPURUN_TRY(write_stack_files(writer, judged, out, result.verdict, options));
  Words english = words_of(judged, result.verdict);
  Words spoken;
  if (options.language != base::Language::english) {
    const base::Speaking speaking(options.language);
    spoken = words_of(judged, judged.spoken);
  }
  RunReport report = start_report(judged, std::move(places), result, options);
  put_words(report, std::move(english), result.verdict);
  base::Progress progress("writing the report", 3);
  if (options.source != SourceLines::none) {
    XPURUN_TRY(add_source(report, judged.job, out, options.source));
  }
  progress.advance();
  XPURUN_TRY(writer.write(out.report_json(), report_json(report, JsonLayout::indented)));
  progress.advance();
  const base::Speaking speaking(options.language);
  if (options.language != base::Language::english) {
    put_words(report, std::move(spoken), judged.spoken);
    translate_speed(report);
    result.spoken_report = report_json(report, JsonLayout::one_line);
  }
  if (options.write_html) {
    XPURUN_TRY(writer.write(out.report_html(), report_html(report)));
  }
  progress.advance();
  result.files = writer.take();
  return result;
}

}  // namespace

base::Result<BuildResult> build_report(const model::RunDir& dir, const BuildOptions& options) {
  XPURUN_TRY_ASSIGN(JobRuns job, read_job(dir));
  return build(std::move(job), dir, options);
}

base::Result<BuildResult> build_report(const std::vector<model::RunDir>& dirs, const model::RunDir& out,
                                       const BuildOptions& options) {
  XPURUN_TRY_ASSIGN(JobRuns job, read_job(dirs));
  XPURUN_TRY(base::make_own_dir(out.path()));
  return build(std::move(job), out, options);
}

base::Result<model::Verdict> judge_now(const model::RunDir& dir, const std::string& dump,
                                       base::Language language) {
  XPURUN_TRY_ASSIGN(JobRuns job, read_job(dir));
  XPURUN_TRY_ASSIGN(const model::DumpManifest manifest,
                    model::load_dump_manifest(dir.file(dump) + "/dump.json"));
  model::RunManifest& run = job.nodes.front().run;
  run.judged_now = true;
  model::Stall look{.n = 1, .at_s = manifest.at_s, .dump = dump, .asked_s = manifest.at_s, .pending = true};
  double longest_s = 0;
  for (const model::RankObservation& rank : manifest.ranks) {
    if (rank.alive && rank.still_s >= kStillNowS) {
      look.ranks.insert(rank.rank);
      longest_s = std::max(longest_s, rank.still_s);
    }
  }
  std::optional<model::Verdict> hang;  // that is known and goes on
  for (const model::Stall& known : run.stalls) {
    look.n = std::max(look.n, known.n + 1);
    const bool confirmed = known.verdict.kind == model::VerdictKind::hang &&
                           known.verdict.level == model::VerdictLevel::confirmed;
    if (confirmed && known.cleared_s < 0 && look.ranks.contains(known.ranks)) {
      hang = known.verdict;
    }
  }
  // The dump shows the stalls that were open, too.
  std::erase_if(run.stalls, [](const model::Stall& s) { return s.cleared_s < 0; });
  look.since_s = manifest.at_s - longest_s;
  if (!look.ranks.empty()) {
    run.stalls.push_back(std::move(look));
  }
  BuildResult result;
  model::Verdict out = judge(std::move(job), {.language = language}, result).spoken;
  if (hang && out.kind == model::VerdictKind::running) {
    const base::Speaking speaking(language);
    out.kind = model::VerdictKind::hang;
    out.id = hang->id;
    out.level = hang->level;
    say(out, out.headline);
  }
  return out;
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
