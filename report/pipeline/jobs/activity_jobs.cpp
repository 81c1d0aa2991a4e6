#include "report/pipeline/jobs/activity_jobs.h"

#include "report/pipeline/jobs/call_jobs.h"
#include "report/pipeline/jobs/gpu_times.h"

#include <algorithm>
#include <array>
#include <map>

namespace xpurun::report {

namespace {

using model::JobKind;
using model::Stage;
using CallKind = PipelineCall::Kind;

// The functions of torch.distributed, as the spans name them.
std::optional<CallKind> exchange_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, CallKind>, 4> kKnown{{
      {"send", CallKind::send},
      {"recv", CallKind::receive},
      {"send_object_list", CallKind::send},
      {"recv_object_list", CallKind::receive},
  }};
  for (const auto& [known, kind] : kKnown) {
    if (known == name) {
      return kind;
    }
  }
  return std::nullopt;
}

// The role of a call in a pipeline; determined once for all slices of the call.
struct Meaning {
  bool is_python = false;
  std::optional<MarkedBatch> mark;
  std::optional<JobKind> function;
  std::optional<CallKind> exchange;
  bool is_vendor_exchange = false;  // ncclSend, ncclRecv
};

Meaning meaning_of(const Call& call, const JobFunctions& chosen) {
  Meaning out;
  out.is_python = call.category == Category::python;
  if (!out.is_python) {
    out.is_vendor_exchange = call.function == "ncclSend" || call.function == "ncclRecv";
  } else if (call.stage == Stage::forward || call.stage == Stage::backward) {
    out.mark = marked_batch(call.name);
  } else if (call.stage == Stage::function) {
    out.function = kind_of_function(call.name, chosen);
  } else if (call.stage == Stage::communication) {
    out.exchange = exchange_of(call.name);
  }
  return out;
}

// Keeps of nested jobs of a thread the outermost one.
class Outermost {
 public:
  bool keeps(const Slice& slice) {
    int64_t& until = until_[slice.track];
    if (slice.begin_ns < until) {
      return false;
    }
    until = slice.end_ns();
    return true;
  }

 private:
  std::map<uint32_t, int64_t> until_;
};

Job job_of(const Slice& slice, JobKind kind) {
  return {.begin_ns = slice.begin_ns, .end_ns = slice.end_ns(), .kind = kind};
}

class Collector {
 public:
  Collector(const Activity& activity, const JobFunctions& chosen) : activity_(activity) {
    for (const Call& call : activity.calls) {
      meanings_.push_back(meaning_of(call, chosen));
    }
    for (const Slice& slice : activity.slices) {
      const Meaning& meaning = meanings_[slice.call];
      out_.has_point_to_point =
          out_.has_point_to_point || meaning.is_vendor_exchange || meaning.exchange.has_value();
      if (meaning.exchange) {
        if (const std::string& group = activity.calls[slice.call].group; !group.empty()) {
          out_.groups.insert(group);
        }
        ++exchanges_[slice.track];
      }
      if (meaning.is_python) {
        add(slice, meaning, activity.calls[slice.call].stage);
      }
    }
  }

  std::optional<RankJobs> finish(Evidence evidence) {
    std::vector<Job> forwards;
    if (!marked_[JobKind::forward].empty()) {
      out_.source = model::JobSource::marks;
      forwards = std::move(marked_[JobKind::forward]);
    } else if (!functions_[JobKind::forward].empty()) {
      if (!out_.has_point_to_point && evidence == Evidence::needed) {
        return std::nullopt;
      }
      out_.source = model::JobSource::functions;
      forwards = std::move(functions_[JobKind::forward]);
    } else if (!exchanges_.empty()) {
      const std::vector<PipelineCall> all = calls();
      forwards = forwards_between(all);
      out_.sends_forwards = end_with_sends(forwards, all);
    }
    std::vector<Job> backwards = best(JobKind::backward);
    if (forwards.empty() || backwards.empty()) {
      return std::nullopt;
    }
    put(std::move(forwards));
    put(std::move(backwards));
    put(std::move(functions_[JobKind::weight]));
    put(best(JobKind::optimizer));
    put_in_order(out_.jobs);
    out_.rank = activity_.rank;
    out_.host = activity_.host;
    out_.lost = activity_.lost;
    use_gpu_times(out_.jobs, out_.step_marks, activity_);
    return std::move(out_);
  }

 private:
  void add(const Slice& slice, const Meaning& meaning, Stage stage) {
    if (meaning.mark) {
      Job job = job_of(slice, stage == Stage::forward ? JobKind::forward : JobKind::backward);
      job.micro_batch = meaning.mark->micro_batch;
      job.chunk = meaning.mark->chunk;
      marked_[job.kind].push_back(std::move(job));
    } else if (meaning.function && outermost_function_.keeps(slice)) {
      functions_[*meaning.function].push_back(job_of(slice, *meaning.function));
    } else if (stage == Stage::mark) {
      out_.step_marks.push_back(slice.begin_ns);
    } else if (stage == Stage::backward && outermost_backward_.keeps(slice)) {
      stages_[JobKind::backward].push_back(job_of(slice, JobKind::backward));
    } else if (stage == Stage::optimizer && outermost_optimizer_.keeps(slice)) {
      stages_[JobKind::optimizer].push_back(job_of(slice, JobKind::optimizer));
    }
  }

  std::vector<Job> best(JobKind kind) {
    for (std::map<JobKind, std::vector<Job>>* from : {&marked_, &functions_}) {
      if (!(*from)[kind].empty()) {
        return std::move((*from)[kind]);
      }
    }
    return std::move(stages_[kind]);
  }

  void put(std::vector<Job> jobs) { std::move(jobs.begin(), jobs.end(), std::back_inserter(out_.jobs)); }

  // Of the thread with most point-to-point operations. Collectives may be a part of a forward job.
  std::vector<PipelineCall> calls() const {
    const uint32_t thread =
        std::max_element(exchanges_.begin(), exchanges_.end(), [](const auto& a, const auto& b) {
          return a.second < b.second;
        })->first;
    std::vector<PipelineCall> out;
    for (const Slice& slice : activity_.slices) {
      if (slice.track != thread) {
        continue;
      }
      if (const auto kind = call_kind(slice)) {
        out.push_back({.kind = *kind, .begin_ns = slice.begin_ns, .end_ns = slice.end_ns()});
      }
    }
    return out;
  }

  std::optional<CallKind> call_kind(const Slice& slice) const {
    const Meaning& meaning = meanings_[slice.call];
    if (meaning.exchange) {
      return meaning.exchange;
    }
    switch (activity_.calls[slice.call].stage) {
      case Stage::backward:
        return CallKind::backward;
      case Stage::optimizer:
        return CallKind::optimizer;
      case Stage::data:
      case Stage::checkpoint:
        return CallKind::other;
      default:
        return std::nullopt;
    }
  }

  const Activity& activity_;
  std::vector<Meaning> meanings_;  // by call
  std::map<JobKind, std::vector<Job>> marked_;
  std::map<JobKind, std::vector<Job>> functions_;
  std::map<JobKind, std::vector<Job>> stages_;
  std::map<uint32_t, size_t> exchanges_;  // by thread
  Outermost outermost_function_;
  Outermost outermost_backward_;
  Outermost outermost_optimizer_;
  RankJobs out_;
};

}  // namespace

std::optional<RankJobs> jobs_of(const Activity& activity, const JobFunctions& chosen, Evidence evidence) {
  return activity.rank == base::kNoRank ? std::nullopt : Collector(activity, chosen).finish(evidence);
}

}  // namespace xpurun::report
