#include "report/timeline/output/chrome_writer.h"

#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "report/timeline/output/sampled_row.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::report {

namespace {

using nlohmann::ordered_json;

// HolisticTraceAnalysis passes over stream 0 where it looks for stragglers; our numbers begin with 0.
constexpr uint32_t kFirstStream = 1;
constexpr int64_t kUnknownCallNs = 1'000;  // shown duration of a call whose end is not known

std::string dump(const ordered_json& j) {
  return model::json_text(j);
}

template <typename T>
const T* argument(const Call& call, std::string_view name) {
  const auto found = std::find_if(call.arguments.begin(), call.arguments.end(),
                                  [&](const Argument& a) { return a.name == name; });
  return found == call.arguments.end() ? nullptr : std::get_if<T>(&found->value);
}

bool is_gpu(const Call& call) {
  return call.category != Category::host && call.category != Category::python;
}

int64_t stream_of(const Track& track) {
  return int64_t{track.number} + kFirstStream;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

// HolisticTraceAnalysis knows communication by names that begin with ncclKernel, as those of NCCL up to 2.18.
std::string kernel_name(const Call& call) {
  if (call.category == Category::collective && call.function.starts_with("nccl")) {
    std::string out = "ncclKernel_" + call.function.substr(4);
    for (const char* how : {"algorithm", "protocol"}) {
      if (const auto* text = argument<std::string>(call, how)) {
        out += "_" + upper(*text);
      }
    }
    return out;
  }
  if (call.category == Category::memory) {
    const auto* direction = argument<std::string>(call, "direction");
    if (direction != nullptr && direction->size() == 3) {
      return fmt::format("Memcpy {}to{}", direction->front(), direction->back());
    }
    return call.function.starts_with("cudaMemset") ? "Memset (Device)" : call.name;
  }
  return call.name;
}

std::string_view category_of(const Call& call) {
  switch (call.category) {
    case Category::memory:
      return call.function.starts_with("cudaMemset") ? "gpu_memset" : "gpu_memcpy";
    case Category::host:
      return "cuda_runtime";
    case Category::python:
      return "user_annotation";
    default:
      return "kernel";
  }
}

void put_arguments(ordered_json& args, const std::vector<Argument>& from) {
  for (const Argument& a : from) {
    std::visit([&](const auto& value) { args[a.name] = value; }, a.value);
  }
}

// Beside our own names, the names that readers of torch's traces know.
void put_collective(ordered_json& args, const Call& call) {
  const auto put = [&](const char* name, const char* ours) {
    if (const auto* number = argument<int64_t>(call, ours)) {
      args[name] = *number;
    }
  };
  args["Collective name"] = call.function.starts_with("nccl") ? call.function.substr(4) : call.name;
  put("In msg nelems", "count");
  put("Out msg nelems", "count");
  put("Group size", "communicator_size");
  if (const auto* identity = argument<std::string>(call, "communicator")) {
    args["Process Group Name"] = *identity;
  }
}

// As torch says; else that of the collectives that ran on a GPU.
std::string backend_of(const Activity& activity) {
  if (!activity.backend.empty()) {
    return activity.backend;
  }
  const bool nccl = std::any_of(activity.calls.begin(), activity.calls.end(), [](const Call& call) {
    return call.category == Category::collective && !call.open;
  });
  return nccl ? "nccl" : "";
}

class Writer {
 public:
  Writer(OutputFile& out, const Activity& activity, const ChromeOptions& options)
      : out_(out),
        activity_(activity),
        options_(options),
        shift_ns_(options.shift_ns - options.base_ns),
        device_(std::max(activity.local_rank, 0)) {
    for (const Call& call : activity.calls) {
      ordered_json args = ordered_json::object();
      put_arguments(args, call.arguments);
      if (call.category == Category::collective) {
        put_collective(args, call);
      }
      calls_.push_back({dump(is_gpu(call) ? kernel_name(call) : call.name), std::move(args)});
    }
    for (const Slice& s : activity.slices) {
      correlations_ = std::max(correlations_, s.launch);
    }
  }

  void put(const std::string& title) {
    int world = std::max(options_.world_size, activity_.rank + 1);
    for (const Communicator& c : activity_.communicators) {
      world = std::max(world, c.size);
    }
    const std::string backend = backend_of(activity_);
    // HolisticTraceAnalysis takes the rank from the first text of this form, with a space, in the file.
    out_.write(fmt::format(
        "{{\n\"schemaVersion\": 1,\n\"distributedInfo\": {{{}\"rank\": {}, \"world_size\": {}}},\n"
        "\"deviceProperties\": [{}],\n\"displayTimeUnit\": \"ms\",\n"
        "\"baseTimeNanoseconds\": {},\n\"traceName\": {},\n{}\"traceEvents\": [\n",
        backend.empty() ? "" : fmt::format("\"backend\": {}, ", dump(backend)), std::max(activity_.rank, 0),
        std::max(world, 1),
        activity_.gpu.empty() ? ""
                              : fmt::format("{{\"id\": {}, \"name\": {}}}", device_, dump(activity_.gpu)),
        options_.base_ns, dump(title),
        options_.missing.empty() ? "" : fmt::format("\"missing\": {},\n", dump(options_.missing))));
    put_meta(title);
    put_steps();
    for (const Slice& slice : activity_.slices) {
      put_slice(slice);
    }
    for (const Counter& counter : activity_.counters) {
      put_counter(counter);
    }
    out_.write("\n]}\n");
  }

 private:
  struct Known {
    std::string name;  // as JSON
    ordered_json args;
  };

  void put_line(const std::string& json) {
    out_.write(is_first_ ? std::string_view() : std::string_view(",\n"));
    out_.write(json);
    is_first_ = false;
  }

  void put_meta(const std::string& title) {
    const auto name = [&](const char* what, int64_t pid, int64_t tid, const std::string& text) {
      put_line(dump(
          {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"ts", 0}, {"args", {{"name", text}}}}));
    };
    name("process_name", activity_.pid, 0, title);
    const auto is_of_gpu = [](const Track& track) {
      return track.kind != TrackKind::python && track.kind != TrackKind::host;
    };
    if (std::any_of(activity_.tracks.begin(), activity_.tracks.end(), is_of_gpu)) {
      name("process_name", device_, 0, title + ", GPU");
    }
    for (const Track& track : activity_.tracks) {
      if (track.kind == TrackKind::python || track.kind == TrackKind::host) {
        name("thread_name", activity_.pid, track.number,
             is_sampled_row(track) ? track.name : fmt::format("thread {}", track.number));
      } else {
        name("thread_name", device_, stream_of(track),
             track.name.empty() ? fmt::format("stream {}", track.number) : base::sanitize(track.name));
      }
    }
  }

  // A step lasts from mark to mark of the program; without marks, from the end of one optimizer to the next.
  void put_steps() {
    for (const model::Stage stage : {model::Stage::mark, model::Stage::optimizer}) {
      std::vector<std::pair<int64_t, uint32_t>> ends;
      for (const Slice& s : activity_.slices) {
        if (activity_.calls[s.call].category == Category::python && activity_.calls[s.call].stage == stage) {
          ends.emplace_back(s.end_ns(), activity_.tracks[s.track].number);
        }
      }
      for (size_t i = 1; i < ends.size(); ++i) {
        put_complete(fmt::format("\"ProfilerStep#{}\"", i), "user_annotation", activity_.pid, ends[i].second,
                     ends[i - 1].first, ends[i].first - ends[i - 1].first, ordered_json::object());
      }
      if (ends.size() > 1) {
        return;
      }
    }
  }

  void put_complete(const std::string& name, std::string_view category, int64_t pid, int64_t tid,
                    int64_t begin_ns, int64_t duration_ns, const ordered_json& args) {
    const int64_t at = begin_ns + shift_ns_;
    put_line(fmt::format(
        R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}{}.{:03}, "dur": {}.{:03}, "args": {}}})",
        category, name, pid, tid, at < 0 ? "-" : "", std::abs(at) / 1'000, std::abs(at) % 1'000,
        duration_ns / 1'000, duration_ns % 1'000, dump(args)));
  }

  void put_counter(const Counter& counter) {
    const std::string name = dump(counter.name);
    const std::string unit = dump(counter.unit);
    for (const Counter::Sample& sample : counter.samples) {
      const int64_t at = sample.wall_ns + shift_ns_;
      put_line(fmt::format(
          R"({{"ph": "C", "cat": "counter", "name": {}, "pid": {}, "tid": 0, "ts": {}{}.{:03}, "args": {{{}: {:.6g}}}}})",
          name, activity_.pid, at < 0 ? "-" : "", std::abs(at) / 1'000, std::abs(at) % 1'000, unit,
          sample.value));
    }
  }

  void put_slice(const Slice& slice) {
    const Call& call = activity_.calls[slice.call];
    const Known& known = calls_[slice.call];
    const Track& track = activity_.tracks[slice.track];
    ordered_json args = known.args;
    put_arguments(args, activity_.extras[slice.extra]);
    if (call.open) {
      // No kernel for tools that add up kernels: its end is that of the dump.
      args["sequence"] = slice.sequence;
      const bool gpu = is_gpu(call);
      put_complete(dump(call.name), "not_finished", gpu ? device_ : activity_.pid,
                   gpu ? stream_of(track) : int64_t{track.number}, slice.begin_ns, slice.duration_ns, args);
      return;
    }
    if (is_sampled_row(track)) {
      // No call: tools that add up calls pass over the category.
      put_complete(known.name, "sampled", activity_.pid, track.number, slice.begin_ns, slice.duration_ns,
                   args);
      return;
    }
    if (!is_gpu(call)) {
      const bool launches = slice.launch != 0;
      if (launches) {
        args["correlation"] = slice.launch;
        args["function"] = call.function;
      }
      // Readers know a launch by this name.
      const bool kernel = launches && !call.function.starts_with("cudaMem");
      put_complete(kernel ? R"("cudaLaunchKernel")" : known.name, category_of(call), activity_.pid,
                   track.number, slice.begin_ns, slice.duration_ns, args);
      return;
    }
    const uint32_t correlation = slice.launch != 0 ? slice.launch : ++correlations_;
    args["device"] = device_;
    args["stream"] = stream_of(track);
    args["correlation"] = correlation;
    if (slice.sequence != 0) {
      args["sequence"] = slice.sequence;
    }
    args["delay_us"] = slice.delay_us;
    if (const double rate = tflops_of(call, slice); rate > 0) {
      args["TFLOP/s"] = rate;
    }
    if (const double rate = bus_gb_per_s(call, slice); rate > 0) {
      args["bus_bandwidth_GB/s"] = rate;
    }
    if (call.category == Category::memory && slice.duration_ns > 0) {
      args["memory bandwidth (GB/s)"] =
          static_cast<double>(call.work) / static_cast<double>(slice.duration_ns);
    }
    if (slice.launch == 0) {
      put_unknown_call(call, slice, correlation);
    }
    put_complete(known.name, category_of(call), device_, stream_of(track), slice.begin_ns, slice.duration_ns,
                 args);
  }

  void put_unknown_call(const Call& call, const Slice& slice, uint32_t correlation) {
    const bool copy = call.category == Category::memory;
    put_complete(copy ? dump(call.function) : R"("cudaLaunchKernel")", "cuda_runtime", activity_.pid, 0,
                 slice.begin_ns - int64_t{slice.delay_us} * 1'000 - kUnknownCallNs, kUnknownCallNs,
                 {{"correlation", correlation}, {"function", call.function}, {"duration", "not measured"}});
  }

  OutputFile& out_;
  const Activity& activity_;
  const ChromeOptions& options_;
  int64_t shift_ns_;
  int device_;
  std::vector<Known> calls_;
  uint32_t correlations_ = 0;
  bool is_first_ = true;
};

}  // namespace

uint64_t write_chrome(OutputFile& out, const Activity& activity, const std::string& title,
                      const ChromeOptions& options) {
  Writer(out, activity, options).put(title);
  return activity.slices.size();
}

}  // namespace xpurun::report
