#include "report/build/speed_files.h"

#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/build/capture_files.h"
#include "report/operations/analysis.h"
#include "report/profile/captured_functions.h"
#include "report/speed/analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEvents = "events-";
constexpr base::Rank kHighestRank = 1 << 24;

struct RankDir {
  std::string path;
  const NodeRun* node = nullptr;
};

std::map<base::Rank, std::vector<RankDir>> rank_dirs(const JobRuns& job) {
  std::map<base::Rank, std::vector<RankDir>> out;
  for (const NodeRun& node : job.nodes) {
    std::error_code ec;
    for (auto it = fs::directory_iterator(node.path + "/ranks", ec); !ec && it != fs::directory_iterator();
         it.increment(ec)) {
      const int64_t rank = base::parse_int(it->path().filename().string()).value_or(-1);
      std::error_code other;
      if (rank >= 0 && rank < kHighestRank && it->is_directory(other)) {
        out[static_cast<base::Rank>(rank)].push_back({it->path().string(), &node});
      }
    }
  }
  return out;
}

// Files of one kind in the order of their numbers.
std::vector<std::string> numbered(const std::string& dir, std::string_view prefix, std::string_view suffix) {
  std::map<int64_t, std::string> found;
  std::error_code ec;
  for (auto it = fs::directory_iterator(dir, ec); !ec && it != fs::directory_iterator(); it.increment(ec)) {
    const std::string name = it->path().filename().string();
    std::error_code other;
    if (name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix) &&
        it->is_regular_file(other)) {
      const std::string_view number =
          std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - suffix.size());
      found[base::parse_int(number).value_or(0)] = it->path().string();
    }
  }
  std::vector<std::string> out;
  for (auto& [number, path] : found) {
    out.push_back(std::move(path));
  }
  return out;
}

class Reader {
 public:
  explicit Reader(SpeedOfRun& out) : out_(out) {}

  RankInput read(base::Rank rank, const std::vector<RankDir>& dirs) {
    RankInput input{.rank = rank};
    for (const RankDir& dir : dirs) {
      for (const std::string& path : numbered(dir.path, model::kSpanFilePrefix, model::kSpanFileSuffix)) {
        keep(model::load_span_file(path), input.spans, input, *dir.node);
      }
      for (const std::string& path : numbered(dir.path, model::kFunctionFilePrefix, model::kSpanFileSuffix)) {
        keep(model::load_span_file(path), input.functions, input, *dir.node);
      }
      for (const std::string& path : numbered(dir.path, kEvents, model::kEventFileSuffix)) {
        keep(model::load_event_file(path), input.events, input, *dir.node);
      }
    }
    return input;
  }

 private:
  template <typename F>
  void keep(base::Result<F> file, std::vector<F>& to, RankInput& input, const NodeRun& node) {
    if (!file) {
      out_.notes.push_back(base::to_line(file.error()));
      return;
    }
    const model::EventFileHeader& header = file->header;
    if (input.host.empty()) {
      input.host = node.entry.host.empty() ? header.host : node.entry.host;
      // The same for all ranks of a host: their clocks are one.
      const auto [it, added] =
          offsets_.emplace(&node, header.wall_ns - header.mono_ns - node.entry.offset_ns);
      input.offset_ns = it->second;
    }
    input.gpu = input.gpu.empty() ? header.gpu : input.gpu;
    to.push_back(std::move(*file));
  }

  SpeedOfRun& out_;
  std::map<const NodeRun*, int64_t> offsets_;
};

// What the blamed ranks do more than the others, from the newest capture that shows it.
void name_functions(model::SpeedReport& report) {
  for (model::SpeedFinding& finding : report.findings) {
    if (finding.problem != model::SpeedProblem::slow_rank) {
      continue;
    }
    for (auto c = report.captures.rbegin(); c != report.captures.rend(); ++c) {
      if (const model::CapturedFunction* f = blamed_function(*c, finding.ranks)) {
        finding.function = place_of(*f);
        finding.sentence += fmt::format("; in a capture, {} {} {}", f->ranks.size() == 1 ? "rank" : "ranks",
                                        f->ranks.text(), excess_words(*f));
        break;
      }
    }
  }
}

}  // namespace

SpeedOfRun read_speed(const JobRuns& job, const SpeedReading& reading) {
  SpeedOfRun out;
  auto dirs = rank_dirs(job);
  std::erase_if(dirs, [&reading](const auto& one) {
    return !reading.ranks.empty() && !reading.ranks.contains(one.first);
  });
  SpeedAnalysis analysis(dirs.size());
  OperationAnalysis operations;
  Reader reader(out);
  base::Progress progress("reading spans", dirs.size());
  for (const auto& [rank, of_rank] : dirs) {
    const RankInput input = reader.read(rank, of_rank);
    if (!input.spans.empty() || !input.functions.empty() || !input.events.empty()) {
      analysis.add(input);
      operations.add(input);
      ++out.ranks;
    }
    progress.advance();
  }
  StepTable steps;
  out.report = analysis.finish(reading.series ? &steps : nullptr);
  out.report.operations = operations.finish();
  if (reading.series) {
    out.samples = samples_of(out.report, steps, operations.samples());
  }
  Captures captures = read_captures(job);
  out.notes.insert(out.notes.end(), captures.notes.begin(), captures.notes.end());
  out.report.captures = std::move(captures.reports);
  name_functions(out.report);
  return out;
}

}  // namespace xpurun::report
