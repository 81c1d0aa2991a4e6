#include "launcher/stacks/dumped_samples.h"

#include "launcher/stacks/native_path.h"

#include <fmt/format.h>

#include <utility>

namespace xpurun::launcher {

using stackdump::SampledFrame;
using stackdump::SampledThread;

base::Result<DumpedSamples> DumpedSamples::open() {
  DumpedSamples out;
  XPURUN_TRY_ASSIGN(out.directory_, base::TemporaryDirectory::create("xpurun-record"));
  return out;
}

base::Status DumpedSamples::take(const std::vector<DumpTarget>& targets) {
  last_.clear();
  const LiveDump dump{.directory = directory_.path(),
                      .helper_options = {"--lines-ms", "0", "--module-calls"}};
  XPURUN_TRY_ASSIGN(const LiveDumpResult result, dump_live(dump, targets));
  for (model::ProcessStacks& process : load_dumped(directory_.path(), result.outcome)) {
    last_.insert_or_assign(process.pid, std::move(process));
  }
  return {};
}

base::Result<std::vector<SampledThread>> DumpedSamples::threads(base::Pid pid) {
  const auto found = last_.find(pid);
  if (found == last_.end() || found->second.threads.empty()) {
    const std::string why = found == last_.end() ? "" : found->second.reason;
    return base::fail(fmt::format("process {}: {}", pid, why.empty() ? "no stacks" : why));
  }
  std::vector<SampledThread> out;
  for (const model::ThreadStack& thread : found->second.threads) {
    std::vector<SampledFrame> path = native_path(thread);
    if (path.empty() || (!thread.main && !runs_program(path))) {
      continue;
    }
    SampledThread sampled{.id = thread.thread_id,
                          .tid = thread.tid,
                          .main = thread.main,
                          .holds_gil = thread.gil == model::GilState::holder,
                          .name = thread.python_name.empty() ? thread.comm : thread.python_name};
    for (SampledFrame& frame : path) {
      sampled.frames.push_back(number_of(std::move(frame)));
    }
    out.push_back(std::move(sampled));
  }
  return out;
}

base::MonoNs DumpedSamples::moment(base::Pid pid) const {
  const auto found = last_.find(pid);
  return found == last_.end() ? 0 : found->second.mono_ns;
}

uint32_t DumpedSamples::number_of(SampledFrame frame) {
  const auto [at, is_new] = known_.try_emplace(std::tuple(frame.function, frame.file, frame.line),
                                               static_cast<uint32_t>(frames_.size()));
  if (is_new) {
    frames_.push_back(std::move(frame));
  }
  return at->second;
}

}  // namespace xpurun::launcher
