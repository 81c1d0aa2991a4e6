#include "stackdump/resolve/python_sampler.h"

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "stackdump/cpython/frames.h"
#include "stackdump/cpython/line_table.h"
#include "stackdump/cpython/module_calls.h"
#include "stackdump/cpython/thread_names.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/memory/snapshot_memory.h"
#include "stackdump/ptrace/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxSamplePages = 4096;  // 16 MiB per sample
constexpr int64_t kSampleLimitNs = 100'000'000;
constexpr int kNamesEvery = 100;        // samples between two reads of the thread names
constexpr size_t kMaxFrames = 1 << 20;  // different ones of a whole recording

}  // namespace

struct PythonSampler::State {
  State(base::Pid p, base::Pid inner) : pid(p), inner_pid(inner), live(p), memory(live, kMaxSamplePages) {}

  base::Pid pid;
  base::Pid inner_pid;  // in the process's own PID namespace
  LiveMemory live;
  SnapshotMemory memory;  // pages of one sample
  PythonRuntime runtime;
  std::vector<Addr> name_tables;
  ThreadNames names;
  int samples_to_names = 0;
  std::vector<SampledFrame> frames;
  std::map<std::tuple<std::string, std::string, int>, uint32_t> known;

  std::optional<uint32_t> frame_of(const RawFrame& raw, const PySnapshot& snapshot);
  void read_names();
};

std::optional<uint32_t> PythonSampler::State::frame_of(const RawFrame& raw, const PySnapshot& snapshot) {
  const auto code = snapshot.code.find(raw.code);
  if (code == snapshot.code.end() || frames.size() >= kMaxFrames) {
    return std::nullopt;
  }
  const Offsets& o = runtime.offsets;
  SampledFrame frame{.function = base::sanitize(code->second.name),
                     .file = base::sanitize(code->second.filename),
                     .line = source_range(o.lines, code->second.line_table, code->second.first_line,
                                          instruction_index(raw, code->second, o))
                                 .line};
  if (std::string module = module_call(memory, o, raw, code->second); !module.empty()) {
    frame.function = std::move(module);
  }
  const auto [it, is_new] = known.try_emplace(std::tuple(frame.function, frame.file, frame.line),
                                              static_cast<uint32_t>(frames.size()));
  if (is_new) {
    frames.push_back(std::move(frame));
  }
  return it->second;
}

void PythonSampler::State::read_names() {
  if (samples_to_names-- > 0) {
    return;
  }
  samples_to_names = kNamesEvery;
  // A program may import threading late.
  if (name_tables.empty()) {
    name_tables = find_thread_tables(memory, runtime);
  }
  names = read_thread_names(memory, runtime.offsets, name_tables);
}

PythonSampler::PythonSampler(std::unique_ptr<State> state) : state_(std::move(state)) {}
PythonSampler::PythonSampler(PythonSampler&&) noexcept = default;
PythonSampler& PythonSampler::operator=(PythonSampler&&) noexcept = default;
PythonSampler::~PythonSampler() = default;

base::Result<PythonSampler> PythonSampler::open(base::Pid pid) {
  const auto status = base::ProcFs().status(pid);
  if (!status) {
    return base::fail(explain_refusal(pid, ESRCH));
  }
  auto state = std::make_unique<State>(pid, status->ns_pid.empty() ? pid : status->ns_pid.back());
  XPURUN_TRY_ASSIGN(const ProcMaps maps, ProcMaps::read(pid));
  PythonLookup found = find_python(pid, maps, state->memory, LocateEffort::thorough);
  if (!found.runtime) {
    if (state->live.last_errno() == EPERM) {
      return base::fail(explain_refusal(pid, EPERM));
    }
    return base::fail(
        base::Error{.what = fmt::format("process {}: {}", pid, found.reason), .id = "E-NO-PYTHON"});
  }
  state->runtime = std::move(*found.runtime);
  return PythonSampler(std::move(state));
}

const std::vector<SampledFrame>& PythonSampler::frames() const {
  return state_->frames;
}

base::Result<std::vector<SampledThread>> PythonSampler::sample() {
  State& s = *state_;
  s.memory.clear();
  const PySnapshot snapshot = read_python(s.memory, s.runtime, base::mono_ns() + kSampleLimitNs);
  if (snapshot.interpreters.empty()) {
    return base::fail(explain_refusal(s.pid, s.live.last_errno() == EPERM ? EPERM : ESRCH));
  }
  s.read_names();
  std::vector<SampledThread> out;
  for (const PyThread& thread : snapshot.threads) {
    SampledThread sampled{.id = thread.thread_id,
                          .main = thread.native_id == static_cast<uint64_t>(s.inner_pid),
                          .holds_gil = thread.holds_gil,
                          .torn = !thread.cut.empty()};
    if (sampled.main) {
      sampled.tid = s.pid;
    } else if (s.pid == s.inner_pid) {
      sampled.tid = static_cast<base::Tid>(thread.native_id);
    }
    if (const auto name = s.names.find(thread.thread_id); name != s.names.end()) {
      sampled.name = base::sanitize(name->second);
    }
    for (const FrameGroup& group : thread.groups) {
      for (const RawFrame& raw : group.frames) {
        if (const auto code = snapshot.code.find(raw.code);
            code != snapshot.code.end() && is_ours(code->second)) {
          continue;
        }
        const auto frame = s.frame_of(raw, snapshot);
        sampled.torn = sampled.torn || !frame;
        sampled.frames.push_back(frame.value_or(0));
      }
    }
    std::reverse(sampled.frames.begin(), sampled.frames.end());
    if (!sampled.frames.empty()) {
      out.push_back(std::move(sampled));
    }
  }
  // Versions without thread ids: CPython inserts new states at the front, so the main thread's is the last.
  const bool marked = std::any_of(out.begin(), out.end(), [](const SampledThread& t) { return t.main; });
  if (!marked && !out.empty() && s.runtime.offsets.thread_native_id == kAbsent) {
    out.back().main = true;
    out.back().tid = s.pid;
  }
  return out;
}

}  // namespace xpurun::stackdump
