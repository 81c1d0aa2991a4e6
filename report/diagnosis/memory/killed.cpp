#include "report/diagnosis/memory/killed.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/wording.h"

#include <algorithm>
#include <csignal>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::RunManifest;
using model::Verdict;

std::string group_use_before(const Scene& scene, const Ending& e) {
  const auto& machines = scene.facts.machines;
  if (e.process->node >= machines.size()) {
    return {};
  }
  const model::MachineHistory& machine = machines[e.process->node];
  return group_use_words(machine, e.process->rank,
                         e.at_s - seconds_in(scene.facts.run, machine.use.begin_wall_ns));
}

namespace {

// Null: nobody has looked before the end of the process.
const model::MemoryUsers* users_before(const Scene& scene, const Ending& e) {
  const auto& machines = scene.facts.machines;
  return e.process->node < machines.size()
             ? users_of_memory(scene.facts.run, machines[e.process->node], *e.process, e.at_s)
             : nullptr;
}

}  // namespace

MemoryFiller say_filler(const Scene& scene, const Ending& killed, const model::HeldMemory& line, Verdict& v) {
  const model::MemoryUsers* users = users_before(scene, killed);
  if (users == nullptr) {
    return {};
  }
  for (std::string& words : users_words(*users, UsersMoment::before_end)) {
    v.evidence.push_back(std::move(words));
  }
  MemoryFiller filler = memory_filler(scene.facts.machines[killed.process->node], *users, line);
  const bool before_ranks = std::none_of(users->users.begin(), users->users.end(),
                                         [](const auto& user) { return user.role == model::UserRole::rank; });
  if (!filler.known() && (before_ranks || killed.process->rank == base::kNoRank)) {
    filler = launcher_filler(*users, killed.process->pid);
  }
  if (filler.known()) {
    v.confidence = Confidence::medium;
    v.next = filler.next;
    if (filler.rank != base::kNoRank) {
      v.ranks = {filler.rank};
    }
  }
  return filler;
}

std::string say_memory_of_helpers(const Scene& scene, const Ending& root, const Ending* helper, Verdict& v) {
  if (!root.raised() || helper == nullptr || helper->signal != SIGKILL) {
    return {};
  }
  // In a container only the counters of the control group are known.
  const model::KernelEvent* oom =
      oom_kill_of(scene.facts.kernel, helper->process->node, helper->process->pid, helper->at_s);
  const RunManifest& run = scene.facts.run;
  if (oom == nullptr && (run.memory.oom_kills == 0 || run.nodes.size() > 1)) {
    return {};
  }
  v.next = advice_on_memory(oom == nullptr || oom->memory_limit);
  v.memory = held_by_line(scene.facts.memory, root.process->rank);
  if (const MemoryFiller filler = say_filler(scene, *helper, v.memory, v); filler.known()) {
    v.memory = filler.foreign ? model::HeldMemory{} : v.memory;
    v.where = v.memory.present() ? v.memory.where : v.where;
    return filler.words;
  }
  if (!v.memory.present()) {
    return {};
  }
  v.where = v.memory.where;
  std::string held = tr("; {} were allocated at {}", base::human_size(static_cast<uint64_t>(v.memory.bytes)),
                        place(v.memory.where));
  if (v.memory.grown_a_step <= 0) {
    return held;
  }
  v.next.text = advice_on_growth(v.memory);
  v.next.command.clear();
  return tr("{}, {} more in each step", held, base::human_size(static_cast<uint64_t>(v.memory.grown_a_step)));
}

}  // namespace xpurun::report
