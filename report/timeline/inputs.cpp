#include "report/timeline/inputs.h"

#include "common/base/strings.h"
#include "common/model/evidence/machine.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/events/event_activity.h"
#include "report/events/files/record_files.h"
#include "report/events/foreign/foreign_record.h"
#include "report/timeline/counters/counters.h"
#include "report/timeline/counters/host_counters.h"
#include "report/timeline/span_activity.h"
#include "report/timeline/untimed_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

namespace xpurun::report {

namespace {

namespace fs = std::filesystem;

// Whether the operand is the directory of a run.
bool note_run(const std::string& operand, TraceInputs& out) {
  const auto manifest = model::load_run_manifest(model::RunDir(operand).run_json());
  if (!manifest) {
    return false;
  }
  out.world_size = std::max(out.world_size, manifest->world_size);
  if (manifest->started_wall_ns > 0) {
    out.run_began_ns = out.run_began_ns == 0 ? manifest->started_wall_ns
                                             : std::min(out.run_began_ns, manifest->started_wall_ns);
  }
  return true;
}

// The run directory of a directory of a trace or a capture; empty: it is none.
std::string run_around(const std::string& operand) {
  std::error_code ec;
  const fs::path dir = fs::canonical(operand, ec);
  const std::string kind = dir.parent_path().filename();
  const fs::path run = dir.parent_path().parent_path();
  return !ec && (kind == "traces" || kind == "captures") && fs::exists(run / "run.json", ec) ? run.string()
                                                                                             : "";
}

// The span files of the run of a trace, by rank; they count in the time of its events.
void give_spans(const std::string& run, std::vector<TraceSource>& sources) {
  for (const RecordFile& file : record_files(run + "/ranks").files) {
    if (!file.path.ends_with(model::kSpanFileSuffix)) {
      continue;
    }
    const auto owners = owners_of(file);
    const RecordOwner of = owners && !owners->empty() ? owners->front() : RecordOwner();
    for (TraceSource& source : sources) {
      if (source.rank == of.rank && source.rank != base::kNoRank && source.host == of.host &&
          source.importer->is_ours() &&
          std::find(source.files.begin(), source.files.end(), file.path) == source.files.end()) {
        source.beside.push_back(file.path);
      }
    }
  }
}

// Leaves of the spans those that overlap the other slices, and of the counters what lies between these.
void cut_spans(Activity& activity) {
  int64_t from = kLatestNs;
  int64_t until = 0;
  const auto is_python = [&](const Slice& s) { return activity.tracks[s.track].kind == TrackKind::python; };
  for (const Slice& s : activity.slices) {
    if (!is_python(s) && !activity.calls[s.call].open) {
      from = std::min(from, s.begin_ns - int64_t{s.delay_us} * 1'000);
      until = std::max(until, s.end_ns());
    }
  }
  std::erase_if(activity.slices,
                [&](const Slice& s) { return is_python(s) && (s.end_ns() < from || s.begin_ns > until); });
  for (Counter& counter : activity.counters) {
    std::erase_if(counter.samples, [&](const Counter::Sample& sample) {
      return sample.wall_ns < from || sample.wall_ns > until;
    });
  }
  std::erase_if(activity.short_calls, [&](const ShortCalls& calls) {
    return calls.begin_ns + calls.duration_ns < from || calls.begin_ns > until;
  });
}

// A rank of which nothing else is known gets a source of its own.
void give_open_calls(const std::string& operand, std::vector<TraceSource>& sources) {
  for (auto& [rank, calls] : open_calls(operand)) {
    const std::string& host = calls.front().host;
    auto at = std::find_if(sources.begin(), sources.end(), [&, rank = rank](const TraceSource& s) {
      return s.rank == rank && s.importer->is_ours() && (s.host == host || host.empty());
    });
    if (at == sources.end()) {
      const auto behind = std::find_if(sources.begin(), sources.end(), [rank = rank](const TraceSource& s) {
        return s.rank == base::kNoRank || s.rank > rank;
      });
      at = sources.insert(behind, {.rank = rank, .importer = &importers().front(), .host = host});
    }
    std::move(calls.begin(), calls.end(), std::back_inserter(at->open));
  }
}

// Reads the files of one process.
class SourceReader {
 public:
  SourceReader(const TraceSource& source, Activity& out, RankRecord* record)
      : source_(source), out_(out), record_(record) {}

  base::Status add(const std::string& path, bool beside) {
    if (!source_.importer->is_ours()) {
      return add_foreign_file(path);
    }
    if (path.ends_with(model::kEventFileSuffix)) {
      XPURUN_TRY_ASSIGN(model::EventFile file, model::load_event_file(path));
      head(file.header);
      const RecordedCalls recorded = recorded_calls(file, path);
      add_events(out_, file);
      add_gpu_counters(out_, file, recorded, path);
      untimed_.add(file, recorded);
      if (record_ != nullptr) {
        record_->events.push_back(std::move(file));
      }
      return {};
    }
    XPURUN_TRY_ASSIGN(model::SpanFile file, model::load_span_file(path));
    head(file.header);
    add_spans(out_, file);
    add_host(path);
    if (record_ != nullptr && !beside) {
      const bool functions = base::base_name(path).starts_with(model::kFunctionFilePrefix);
      (functions ? record_->functions : record_->spans).push_back(std::move(file));
    }
    return {};
  }

  const UntimedCalls& untimed() const { return untimed_; }

 private:
  // The host of the run directory that the file ranks/N/... lies in, once.
  void add_host(const std::string& path) {
    const fs::path ranks = fs::path(path).parent_path().parent_path();
    if (ranks.filename() == "ranks" && hosts_.insert(ranks.string()).second) {
      add_intruders(out_, (ranks.parent_path() / model::kMachineFile).string());
      add_host_counters(out_, ranks.parent_path().string());
    }
  }
  void head(const model::EventFileHeader& h) {
    out_.local_rank = h.local_rank;
    out_.pid = h.pid;
    out_.host = h.host;
    out_.gpu = out_.gpu.empty() ? h.gpu : out_.gpu;
  }

  base::Status add_foreign_file(const std::string& path) {
    if (record_ != nullptr && !out_.slices.empty()) {
      // A record holds its files one after the other.
      Activity alone{.rank = source_.rank, .pid = source_.pid, .host = source_.host};
      XPURUN_TRY(source_.importer->read(alone, path));
      add_foreign(*record_, alone);
      return source_.importer->read(out_, path);
    }
    XPURUN_TRY(source_.importer->read(out_, path));
    if (record_ != nullptr) {
      add_foreign(*record_, out_);
    }
    return {};
  }

  const TraceSource& source_;
  Activity& out_;
  RankRecord* record_;
  UntimedCalls untimed_;
  std::set<std::string> hosts_;  // directories whose machine.json was read
};

}  // namespace

TraceInputs find_inputs(const std::vector<std::string>& operands, WithoutFiles without) {
  TraceInputs out;
  std::map<std::tuple<bool, base::Rank, const Importer*, std::string, base::Pid>, TraceSource> found;
  for (const std::string& operand : operands) {
    RecordFiles below = record_files(operand);
    std::move(below.traces.begin(), below.traces.end(), std::back_inserter(out.traces));
    const bool is_run = note_run(operand, out);
    if (below.files.empty() && !(is_run && without == WithoutFiles::fine_of_a_run)) {
      out.problems.push_back(
          {.what = fmt::format("no event file and no span file below {}", operand),
           .cause = "they are written while --timing is on, for ranks that use a GPU or torch in Python"});
    }
    for (const RecordFile& file : below.files) {
      const auto owners = owners_of(file);
      if (!owners) {
        out.problems.push_back(owners.error());
        continue;
      }
      for (const RecordOwner& owner : *owners) {
        const bool nobodys = owner.rank == base::kNoRank;
        // What has neither rank nor process is one row a file.
        const std::string place = nobodys && owner.pid == 0 ? file.path : owner.host;
        auto& at = found[{nobodys, owner.rank, file.importer, place, owner.pid}];
        if (at.files.empty()) {
          at = {.rank = owner.rank, .importer = file.importer, .host = owner.host, .pid = owner.pid};
        }
        if (std::find(at.files.begin(), at.files.end(), file.path) == at.files.end()) {
          at.files.push_back(file.path);
        }
      }
    }
  }
  for (auto& [key, source] : found) {
    out.sources.push_back(std::move(source));
  }
  for (const std::string& operand : operands) {
    give_open_calls(operand, out.sources);
    if (const std::string run = run_around(operand); !run.empty()) {
      give_spans(run, out.sources);
      note_run(run, out);
    }
  }
  return out;
}

void leave_out_open_calls(TraceInputs& inputs) {
  for (TraceSource& source : inputs.sources) {
    source.open.clear();
  }
  std::erase_if(inputs.sources, [](const TraceSource& source) { return source.files.empty(); });
}

Activity read_source(const TraceSource& source, std::vector<base::Error>& problems, RankRecord* record) {
  Activity out;
  out.rank = source.rank;
  out.host = source.host;
  out.pid = source.pid;
  SourceReader reader(source, out, record);
  std::vector<std::string> files = source.files;
  files.insert(files.end(), source.beside.begin(), source.beside.end());
  for (size_t i = 0; i < files.size(); ++i) {
    const bool was_complete = out.complete;
    out.complete = true;
    if (const auto added = reader.add(files[i], i >= source.files.size()); !added) {
      problems.push_back(added.error());
    }
    if (!out.complete) {
      problems.push_back({.what = fmt::format("{}: {}", files[i], damage_of(out))});
      out.damage.clear();
    }
    out.complete = out.complete && was_complete;
  }
  if (!source.beside.empty()) {
    cut_spans(out);
  }
  out.untimed = reader.untimed().periods();
  out.sampled = reader.untimed().sampled();
  add_open_calls(out, source.open);
  put_in_order(out, source.importer->is_ours() ? Equal::repeated : Equal::several);
  if (record != nullptr) {
    record->rank = out.rank;
    record->host = out.host;
    record->gpu = record->gpu.empty() ? out.gpu : record->gpu;
  }
  return out;
}

}  // namespace xpurun::report
