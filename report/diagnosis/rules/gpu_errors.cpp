#include "report/diagnosis/rules/gpu_errors.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/vocabulary.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace xpurun::report {

using base::later;
using base::tr;
using model::GpuDevice;
using model::KernelEvent;
using model::KernelEventKind;
using model::Verdict;
using model::VerdictKind;

namespace {

// After the driver reports a GPU error, a rank may live on for some seconds until its next call fails.
constexpr double kXidBeforeDeathS = 60;
constexpr double kXidAfterDeathS = 1;
// The stall begins when the last rank has reached its wait, and the error comes before that.
constexpr double kXidBeforeStallS = 60;
// Reports that end no work by themselves.
constexpr int kHarmless[] = {63, 92};

// From NVIDIA's "XID Errors": errors that end a process, or that report a failure of a GPU, its memory or its
// links.
constexpr std::pair<int, std::string_view> kXids[] = {
    {13, later("exception in a kernel")},
    {31, later("invalid access to GPU memory")},
    {32, later("corrupted command stream")},
    {43, later("the GPU stopped a process's work")},
    {45, later("the driver removed a process's work")},
    {48, later("uncorrectable memory error")},
    {61, later("internal error of the GPU")},
    {62, later("internal error of the GPU")},
    {63, later("a row of GPU memory is being replaced")},
    {64, later("a row of GPU memory could not be replaced")},
    {69, later("exception in the graphics engine")},
    {74, later("NVLink error")},
    {79, later("GPU has fallen off the bus")},
    {92, later("many correctable memory errors")},
    {94, later("contained memory error")},
    {95, later("uncontained memory error")},
    {109, later("context switch timeout")},
    {119, later("the GPU's firmware does not answer")},
    {120, later("error of the GPU's firmware")},
    {140, later("uncorrectable memory error")},
    {154, later("the GPU needs a reset")},
};

// "0000:3B:00.0" and "0000:3b:00" are one device.
bool is_device(std::string_view device, std::string_view reported) {
  return !reported.empty() && device.size() >= reported.size() &&
         std::equal(reported.begin(), reported.end(), device.begin(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

// The kernel names the rank's process, or the GPU that the driver says the process uses. Its pids and the
// driver's are those of the host.
bool is_of_rank(const Scene& scene, const KernelEvent& e, const RankView& v) {
  const size_t node = v.record != nullptr ? v.record->node : 0;
  if (e.node != node || !(e.host_pid || scene.facts.kernel.host_pids)) {
    return false;
  }
  if (e.pid > 0) {
    return e.pid == v.pid;
  }
  const auto& devices = scene.facts.gpus.devices;
  return std::any_of(devices.begin(), devices.end(), [&](const GpuDevice& d) {
    return d.node == node && is_device(d.pci, e.pci) &&
           std::any_of(d.processes.begin(), d.processes.end(),
                       [&](const model::GpuProcess& p) { return p.pid == v.pid; });
  });
}

// The first error of the rank's GPU that may be the cause of its stall; null if none.
const KernelEvent* error_before_stall(const Scene& scene, const RankView& v) {
  const double begin = scene.dump_at_s() - v.seconds;
  for (const KernelEvent& e : scene.facts.kernel.events) {
    const bool harmless = std::find(std::begin(kHarmless), std::end(kHarmless), e.xid) != std::end(kHarmless);
    if (e.kind == KernelEventKind::xid && !harmless && e.at_s >= begin - kXidBeforeStallS &&
        is_of_rank(scene, e, v)) {
      return &e;
    }
  }
  return nullptr;
}

std::string reported(const KernelEvent& e) {
  return tr("the kernel reported {} of GPU {}", xid_words(e), base::sanitize(e.pci));
}

}  // namespace

std::string xid_words(const KernelEvent& e) {
  const std::string_view meaning = xid_meaning(e.xid);
  return meaning.empty() ? tr("Xid {}", e.xid) : tr("Xid {} ({})", e.xid, tr(meaning));
}

std::string_view xid_meaning(int xid) {
  const auto* it =
      std::find_if(std::begin(kXids), std::end(kXids), [&](const auto& x) { return x.first == xid; });
  return it == std::end(kXids) ? std::string_view() : it->second;
}

std::optional<Verdict> gpu_failed(const Scene& scene) {
  Views culprits;
  Views waiting;
  const KernelEvent* first = nullptr;
  for (const RankView& v : scene.ranks) {
    const KernelEvent* e = v.state == RankState::dead ? nullptr : error_before_stall(scene, v);
    if (e == nullptr) {
      if (v.state == RankState::waiting) {
        waiting.push_back(&v);
      }
      continue;
    }
    culprits.push_back(&v);
    first = first == nullptr || e->at_s < first->at_s ? e : first;
  }
  if (first == nullptr) {
    return std::nullopt;
  }
  // An error of one GPU, such as a link error, may cause errors of other GPUs: only the first counts.
  std::erase_if(culprits, [&](const RankView* v) { return error_before_stall(scene, *v) != first; });
  Verdict v = begin_hang(scene, {.id = kHangGpuError},
                         {{.state = culprits.front()->state, .views = culprits}}, waiting);
  const std::string waits = waiting_clause(v.waiting, v.ranks.size());
  say(v, tr("the GPU of {} failed: {} {}; {} {} been in {} for {}{}", scene.names(ranks_of(culprits)),
            reported(*first), moment_words(scene.facts.run, first->at_s),
            pick({"the rank", "the ranks"}, culprits.size()), pick({"has", "have"}, culprits.size()),
            place(v.where), seconds_words(longest(culprits)), waits.empty() ? "" : tr("; ") + waits));
  v.next = {.text = tr("look up the Xid, restart the job without that GPU, and have it checked"),
            .command = "nvidia-smi -q; dmesg | grep -i xid"};
  return v;
}

void name_gpu_error(const Scene& scene, model::Verdict& verdict) {
  const bool died = verdict.kind == model::VerdictKind::crash ||
                    verdict.kind == model::VerdictKind::exception || verdict.kind == model::VerdictKind::exit;
  if (verdict.kind == VerdictKind::hang && verdict.id != kHangGpuError) {
    for (const RankView& v : scene.ranks) {
      const KernelEvent* e = verdict.ranks.contains(v.rank) ? error_before_stall(scene, v) : nullptr;
      if (e != nullptr) {
        say(verdict, tr("{}; {}", verdict.headline, reported(*e)));
        return;
      }
    }
  }
  if (!died || verdict.ranks.empty()) {
    return;
  }
  for (const Ending& e : scene.endings) {
    if (e.process->role != model::ProcessRole::rank || !verdict.ranks.contains(e.process->rank) ||
        !e.failed()) {
      continue;
    }
    for (const KernelEvent& k : scene.facts.kernel.events) {
      const bool near = k.at_s >= e.at_s - kXidBeforeDeathS && k.at_s <= e.at_s + kXidAfterDeathS;
      if (k.kind == KernelEventKind::xid && near && k.node == e.process->node &&
          (k.pid == 0 || k.pid == e.process->pid)) {
        say(verdict, tr("{}; {}", verdict.headline, reported(k)));
        return;
      }
    }
  }
}

}  // namespace xpurun::report
