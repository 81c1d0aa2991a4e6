#include "report/pipeline/jobs/gpu_times.h"

#include <algorithm>
#include <map>
#include <optional>

namespace xpurun::report {

namespace {

struct Work {
  int64_t launched_ns = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

bool has_gpu_times(const Call& call) {
  return (call.category == Category::matmul || call.category == Category::kernel ||
          call.category == Category::memory || call.category == Category::graph) &&
         !call.begin_on_host;
}

// When captured work was launched: by the call of CUDA that has its correlation number. Each capture may
// start to count again, so the last such call before the work counts.
class CapturedLaunches {
 public:
  explicit CapturedLaunches(const Activity& activity) {
    for (const Slice& slice : activity.slices) {  // in order
      const Call& call = activity.calls[slice.call];
      if (call.captured && call.category == Category::host && slice.launch != 0) {
        called_[slice.launch].push_back(slice.begin_ns);
      }
    }
  }
  std::optional<int64_t> launched_ns(const Slice& work) const {
    const auto found = called_.find(work.launch);
    if (work.launch == 0 || found == called_.end()) {
      return std::nullopt;
    }
    const std::vector<int64_t>& calls = found->second;
    const auto after = std::upper_bound(calls.begin(), calls.end(), work.begin_ns);
    return after == calls.begin() ? std::nullopt : std::optional(*(after - 1));
  }

 private:
  std::map<uint32_t, std::vector<int64_t>> called_;
};

std::vector<Work> timed_work(const Activity& activity) {
  std::vector<bool> counts;
  for (const Call& call : activity.calls) {
    counts.push_back(has_gpu_times(call));
  }
  const CapturedLaunches captured(activity);
  std::vector<Work> out;
  for (const Slice& slice : activity.slices) {
    if (!counts[slice.call]) {
      continue;
    }
    // Captured work whose call was not captured belongs to no job that is known.
    const std::optional<int64_t> launched = activity.calls[slice.call].captured
                                                ? captured.launched_ns(slice)
                                                : slice.begin_ns - int64_t{slice.delay_us} * 1'000;
    if (launched) {
      out.push_back({*launched, slice.begin_ns, slice.end_ns()});
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Work& a, const Work& b) { return a.launched_ns < b.launched_ns; });
  return out;
}

bool has_untimed(const Activity& activity, int64_t begin_ns, int64_t end_ns) {
  const auto at = std::partition_point(activity.untimed.begin(), activity.untimed.end(),
                                       [&](const Period& untimed) { return untimed.end_ns <= begin_ns; });
  return at != activity.untimed.end() && at->begin_ns < end_ns;
}

// The job that the program had begun last before each mark; jobs.size(): none.
std::vector<size_t> jobs_before(const std::vector<int64_t>& marks, const std::vector<Job>& jobs) {
  std::vector<size_t> out;
  for (const int64_t mark : marks) {
    const auto after = std::upper_bound(jobs.begin(), jobs.end(), mark,
                                        [](int64_t ns, const Job& j) { return ns < j.begin_ns; });
    out.push_back(after == jobs.begin() ? jobs.size() : static_cast<size_t>(after - jobs.begin()) - 1);
  }
  return out;
}

}  // namespace

void use_gpu_times(std::vector<Job>& jobs, std::vector<int64_t>& step_marks, const Activity& activity) {
  const std::vector<Work> work = timed_work(activity);
  const std::vector<size_t> before = jobs_before(step_marks, jobs);
  int64_t last_end = 0;  // of GPU work
  for (Job& job : jobs) {
    auto at = std::lower_bound(work.begin(), work.end(), job.begin_ns,
                               [](const Work& w, int64_t ns) { return w.launched_ns < ns; });
    if (at != work.end() && at->launched_ns < job.end_ns) {
      const int64_t until = job.end_ns;
      job.at_least = has_untimed(activity, job.begin_ns, until);
      job.begin_ns = at->begin_ns;
      job.end_ns = at->end_ns;
      for (; at != work.end() && at->launched_ns < until; ++at) {
        job.begin_ns = std::min(job.begin_ns, at->begin_ns);
        job.end_ns = std::max(job.end_ns, at->end_ns);
      }
      job.gpu = true;
    } else if (job.kind == model::JobKind::optimizer) {
      // The host calls the optimizer before the GPU has done the passes.
      job.begin_ns = std::max(job.begin_ns, last_end);
      job.end_ns = std::max(job.end_ns, job.begin_ns);
    }
    last_end = job.gpu ? std::max(last_end, job.end_ns) : last_end;
  }
  for (size_t i = 0; i < step_marks.size(); ++i) {
    step_marks[i] =
        before[i] == jobs.size() ? step_marks[i] : std::max(step_marks[i], jobs[before[i]].end_ns);
  }
  std::sort(step_marks.begin(), step_marks.end());
  put_in_order(jobs);
}

}  // namespace xpurun::report
