#include "report/timeline/timeline.h"

#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "report/timeline/coverage/trace_gaps.h"
#include "report/timeline/inputs.h"
#include "report/timeline/output/chrome_writer.h"
#include "report/timeline/output/xpu_timer_writer.h"
#include "report/timeline/untimed_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <limits>
#include <unordered_map>

namespace xpurun::report {

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
// Activities that memory holds at a time.
constexpr size_t kMostKept = 2;

struct Loaded {
  Activity activity;
  std::vector<base::Error> problems;
};

Loaded load(const TraceSource& source) {
  Loaded out;
  out.activity = read_source(source, out.problems);
  return out;
}

// Calls `use` for every source in order, while a second thread reads the next one.
template <typename Use>
void for_each_source(const std::vector<const TraceSource*>& sources, std::string_view what, Use&& use) {
  base::Progress progress(what, sources.size());
  std::future<Loaded> next;
  for (size_t i = 0; i < sources.size(); ++i) {
    Loaded at = next.valid() ? next.get() : load(*sources[i]);
    if (i + 1 < sources.size()) {
      next = std::async(std::launch::async, load, std::cref(*sources[i + 1]));
    }
    use(*sources[i], std::move(at));
    progress.advance();
  }
}

// "rank-3.json"; the last part differs between processes of one directory.
std::string chrome_file_name(const TraceSource& source, const Activity& activity) {
  std::string out = source.rank == base::kNoRank ? fmt::format("process-{}", activity.pid)
                                                 : fmt::format("rank-{}", source.rank);
  if (!source.importer->is_ours()) {
    out += fmt::format("-{}", source.importer->name);
  }
  return out + ".json";
}

struct Window {
  int64_t from_ns = std::numeric_limits<int64_t>::min();
  int64_t until_ns = std::numeric_limits<int64_t>::max();
};

Window window_of(const TimelineOptions& options, int64_t begin_ns) {
  Window out;
  if (options.from_s > 0) {
    out.from_ns = begin_ns + base::s_to_ns(options.from_s);
  }
  if (options.until_s > 0) {
    out.until_ns = begin_ns + base::s_to_ns(options.until_s);
  }
  return out;
}

void cut(Activity& activity, const TimelineOptions& options, const Window& window, int64_t shift_ns) {
  std::erase_if(activity.slices, [&](const Slice& s) {
    const Category category = activity.calls[s.call].category;
    return s.end_ns() + shift_ns < window.from_ns || s.begin_ns + shift_ns > window.until_ns ||
           (!options.only.empty() && !options.only.contains(category));
  });
  if (!options.only.empty()) {
    activity.counters.clear();
  }
  for (Counter& counter : activity.counters) {
    std::erase_if(counter.samples, [&](const Counter::Sample& s) {
      return s.wall_ns + shift_ns < window.from_ns || s.wall_ns + shift_ns > window.until_ns;
    });
  }
}

std::string title_of(const TraceSource& source, const Activity& activity, const std::string& groups) {
  std::string out = source.rank == base::kNoRank ? fmt::format("process {}", activity.pid)
                                                 : fmt::format("rank {}", source.rank);
  if (!groups.empty()) {
    out += fmt::format(" ({})", groups);
  }
  for (const std::string& part : {activity.host, activity.gpu}) {
    out += part.empty() ? "" : ", " + base::sanitize(part);
  }
  return source.importer->is_ours() ? out : fmt::format("{}, {}", out, source.importer->name);
}

// From run.json, else as far as the ranks are known.
int world_size_of(const TraceInputs& inputs) {
  int out = inputs.world_size;
  for (const TraceSource& source : inputs.sources) {
    out = std::max(out, static_cast<int>(source.rank) + 1);
  }
  return out;
}

model::RankSet ranks_of(const TraceInputs& inputs) {
  model::RankSet out;
  for (const TraceSource& source : inputs.sources) {
    if (source.rank != base::kNoRank) {
      out.insert(source.rank);
    }
  }
  return out;
}

bool is_wanted(const TraceSource& source, const TimelineOptions& options) {
  return (!options.ranks || options.ranks->contains(source.rank)) &&
         (!options.first_group || !options.groups || options.groups->is_in_a_first_group(source.rank));
}

// The meetings that several slices have.
class Meetings {
 public:
  void add(const Activity& activity) {
    for (const Slice& s : activity.slices) {
      if (s.meeting != 0) {
        const auto [at, is_new] = shared_.emplace(s.meeting, false);
        at->second = !is_new;
      }
    }
  }
  // A flow needs two ends.
  void drop_single_ends(Activity& activity) const {
    for (Slice& s : activity.slices) {
      if (s.meeting != 0 && !shared_.at(s.meeting)) {
        s.meeting = 0;
      }
    }
  }

 private:
  std::unordered_map<uint64_t, bool> shared_;
};

// After a cut, a call may lack its work, or the work its call.
void drop_single_launches(Activity& activity) {
  std::unordered_map<uint32_t, bool> shared;
  for (const Slice& s : activity.slices) {
    const auto [at, is_new] = shared.emplace(s.launch, false);
    at->second = at->second || !is_new;
  }
  for (Slice& s : activity.slices) {
    s.launch = shared.at(s.launch) ? s.launch : 0;
  }
}

void take(std::vector<base::Error>& from, std::vector<base::Error>& to) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

// What the first reading of all ranks gives.
struct Survey {
  JobClocks clocks;
  GroupFinder groups;
  Meetings meetings;
  int64_t first_ns = 0;  // wall time of the first slice; 0: there is none
  size_t slices = 0;
  std::vector<Activity> kept;  // all, if there are so few that memory may hold them
};

Survey survey(const std::vector<const TraceSource*>& sources, TimelineExtra* extra, TimelineResult& result) {
  Survey out;
  for_each_source(sources, "reading", [&](const TraceSource&, Loaded&& loaded) {
    const Activity& a = loaded.activity;
    out.clocks.add(a);
    out.groups.add(a);
    out.meetings.add(a);
    if (extra != nullptr) {
      extra->add(a);
    }
    out.slices += a.slices.size();
    if (!a.slices.empty()) {
      const int64_t first = a.slices.front().begin_ns;
      out.first_ns = out.first_ns == 0 ? first : std::min(out.first_ns, first);
    }
    result.lost += a.lost;
    take(loaded.problems, result.problems);
    if (sources.size() <= kMostKept) {
      out.kept.push_back(std::move(loaded.activity));
    }
  });
  out.clocks.solve();
  return out;
}

// The forms of a trace behind one interface.
class Target {
 public:
  // `world_size`: number of ranks of the job.
  static base::Result<Target> create(const TimelineOptions& options, const Survey& survey, int world_size) {
    Target out;
    out.options_ = &options;
    out.world_size_ = world_size;
    out.base_ns_ = survey.first_ns / kSecondNs * kSecondNs;
    if (options.format == TimelineFormat::perfetto) {
      XPURUN_TRY_ASSIGN(OutputFile file, OutputFile::create(options.out, options.compression));
      out.file_ = std::make_unique<OutputFile>(std::move(file));
      out.perfetto_ = std::make_unique<PerfettoWriter>(*out.file_, survey.first_ns);
    } else {
      XPURUN_TRY(base::make_dirs(options.out));
    }
    return out;
  }

  base::Status write(const TraceSource& source, const Activity& activity, const std::string& title,
                     int64_t shift_ns, TimelineResult& result) {
    if (perfetto_ != nullptr) {
      perfetto_->write(activity, title, shift_ns);
      return {};
    }
    if (options_->format == TimelineFormat::xpu_timer) {
      return write_xpu_timer(activity, shift_ns, result);
    }
    const std::string path = fmt::format("{}/{}{}", options_->out, chrome_file_name(source, activity),
                                         options_->compression == Compression::gzip ? ".gz" : "");
    XPURUN_TRY_ASSIGN(OutputFile file, OutputFile::create(path, options_->compression));
    result.counts.slices += write_chrome(file, activity, title, {shift_ns, base_ns_, world_size_, missing_});
    XPURUN_TRY(file.finish());
    result.bytes += file.written();
    result.files.push_back(path);
    return {};
  }

  // As metadata of the trace.
  void note_missing(const std::vector<std::string>& lines) {
    if (perfetto_ != nullptr) {
      perfetto_->write_missing(lines);
    }
    missing_ = lines;
  }

  // Of a Perfetto trace.
  void write_rows(const TimelineRows& rows) { perfetto_->write(rows.activity, rows.title, 0); }

  base::Status finish(TimelineResult& result) {
    if (options_->format == TimelineFormat::xpu_timer) {
      return finish_xpu_timer(result);
    }
    if (perfetto_ == nullptr) {
      return {};
    }
    XPURUN_TRY(file_->finish());
    result.counts = perfetto_->counts();
    result.bytes = file_->written();
    result.files.push_back(options_->out);
    return {};
  }

 private:
  base::Status write_file(const std::string& name, std::string_view bytes, TimelineResult& result) {
    result.files.push_back(fmt::format("{}/{}", options_->out, name));
    result.bytes += bytes.size();
    return base::write_file_atomic(result.files.back(), bytes);
  }

  // The names of the files have the rank, so processes without one have none.
  base::Status write_xpu_timer(const Activity& activity, int64_t shift_ns, TimelineResult& result) {
    if (activity.rank == base::kNoRank) {
      left_out_ += activity.slices.size();
      return {};
    }
    const XpuTimerFiles files = xpu_timer_.add(activity, shift_ns);
    result.counts.slices += files.slices;
    left_out_ += files.left_out;
    const std::string name = xpu_timer_name(activity.rank, world_size_);
    XPURUN_TRY(write_file(name, files.timeline, result));
    return write_file(name + ".meta", files.meta, result);
  }

  base::Status finish_xpu_timer(TimelineResult& result) {
    if (left_out_ > 0) {
      result.missing.push_back(
          fmt::format("{} slices: xpu_timer's files have no place for kernels, graphs, calls on the host, "
                      "unfinished calls, and "
                      "processes without a rank",
                      left_out_));
    }
    const std::string matmuls = xpu_timer_.matmuls();
    return matmuls.empty() ? base::Status()
                           : write_file(fmt::format("matmul_dp{}.bin", world_size_), matmuls, result);
  }

  const TimelineOptions* options_ = nullptr;
  int world_size_ = 0;
  XpuTimerWriter xpu_timer_;
  uint64_t left_out_ = 0;
  int64_t base_ns_ = 0;
  std::vector<std::string> missing_;
  std::unique_ptr<OutputFile> file_;
  std::unique_ptr<PerfettoWriter> perfetto_;
};

}  // namespace

base::Result<TimelineResult> make_timeline(const std::vector<std::string>& operands,
                                           const TimelineOptions& options) {
  TimelineResult result;
  TraceInputs inputs = find_inputs(operands);
  take(inputs.problems, result.problems);
  std::vector<const TraceSource*> sources;
  for (const TraceSource& source : inputs.sources) {
    if (is_wanted(source, options)) {
      sources.push_back(&source);
    }
  }
  if (options.groups) {
    XPURUN_TRY(options.groups->check(ranks_of(inputs), inputs.world_size));
  }
  const bool is_perfetto = options.format == TimelineFormat::perfetto;
  Survey all = survey(sources, is_perfetto ? options.extra : nullptr, result);
  std::vector<TimelineRows> extra_rows =
      is_perfetto && options.extra != nullptr ? options.extra->rows(all.clocks) : std::vector<TimelineRows>();
  for (const TimelineRows& rows : extra_rows) {
    all.slices += rows.activity.slices.size();
    all.first_ns = all.first_ns == 0 && !rows.activity.slices.empty() ? rows.activity.slices.front().begin_ns
                                                                      : all.first_ns;
  }
  if (all.slices == 0) {
    return base::fail(
        base::Error{.what = inputs.sources.empty() || !sources.empty() ? "there is no event to show"
                                                                       : "none of these ranks is there",
                    .cause = result.problems.empty() ? "" : base::to_line(result.problems.front())});
  }
  result.clocks = all.clocks.residual();
  if (!options.groups) {
    result.families = all.groups.families();
  }
  XPURUN_TRY_ASSIGN(Target target, Target::create(options, all, world_size_of(inputs)));
  result.missing = trace_gaps(inputs.traces, options.ranks.value_or(model::RankSet()));
  target.note_missing(result.missing);
  const Window window = window_of(options, inputs.run_began_ns > 0 ? inputs.run_began_ns : all.first_ns);
  base::Status status;
  for (TimelineRows& rows : extra_rows) {
    cut(rows.activity, options, window, 0);
    if (!rows.activity.slices.empty()) {
      target.write_rows(rows);
      ++result.processes;
    }
  }
  const auto write = [&](const TraceSource& source, Activity& activity) {
    const int64_t shift_ns = all.clocks.offset_ns(activity.host);
    link_launches(activity);
    if (options.format != TimelineFormat::xpu_timer) {
      mark_sampled(activity);
    }
    all.meetings.drop_single_ends(activity);
    const size_t whole = activity.slices.size();
    cut(activity, options, window, shift_ns);
    if (activity.slices.size() < whole) {
      drop_single_launches(activity);
    }
    if (activity.slices.empty() || !status) {
      return;
    }
    const std::string groups = options.groups ? options.groups->label(source.rank)
                                              : GroupFinder::label(result.families, source.rank);
    status = target.write(source, activity, title_of(source, activity, groups), shift_ns, result);
    ++result.processes;
  };
  if (all.kept.empty()) {
    for_each_source(sources, "writing",
                    [&](const TraceSource& source, Loaded&& loaded) { write(source, loaded.activity); });
  }
  for (size_t i = 0; i < all.kept.size(); ++i) {
    write(*sources[i], all.kept[i]);
  }
  XPURUN_TRY(status);
  if (result.processes == 0) {
    return base::fail("no event lies in the chosen time and kinds");
  }
  XPURUN_TRY(target.finish(result));
  return result;
}

}  // namespace xpurun::report
