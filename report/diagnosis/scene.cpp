#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/collectives/mismatch.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/ends/interruption.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/gpu_counters.h"
#include "report/diagnosis/waits/still_limit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace xpurun::report {

using base::tr;
using model::RunManifest;
using model::Stall;

namespace {

// Messages that a rank has launched block the rank only where it waits. NCCL may know that all these messages
// have ended.
model::CollectiveFacts waited_for(model::CollectiveFacts calls, const std::vector<RankView>& ranks) {
  std::set<base::Rank> waiting;
  for (const RankView& v : ranks) {
    if (v.state == RankState::waiting) {
      waiting.insert(v.rank);
    }
  }
  for (model::RankCollectives& r : calls.ranks) {
    if (waiting.count(r.rank) != 0 && !all_messages_ended(r)) {
      continue;
    }
    for (model::Communicator& c : r.communicators) {
      for (model::CollectiveCall& call : c.point_to_point) {
        call.stage = call.stage == model::CallStage::launched ? model::CallStage::done : call.stage;
      }
    }
  }
  return calls;
}

// The preload library does not know the line of a call of MPI. The stack of a rank that is inside has the
// line.
model::CollectiveFacts with_places(model::CollectiveFacts calls, const std::vector<RankView>& ranks) {
  for (model::RankCollectives& r : calls.ranks) {
    const auto view =
        std::find_if(ranks.begin(), ranks.end(), [&](const RankView& v) { return v.rank == r.rank; });
    for (model::Communicator& c : r.communicators) {
      for (auto* list : {&c.calls, &c.point_to_point}) {
        for (model::CollectiveCall& call : *list) {
          if (view != ranks.end() && call.where.empty() && call.stage == model::CallStage::called &&
              c.source == model::CallSource::mpi && view->state == RankState::waiting) {
            call.where = view->where;
          }
        }
      }
    }
  }
  return calls;
}

// A rank that has raised in a call may need long to end. Until then, too, it has waited in vain.
std::optional<CallFinding> fault_in(const model::CollectiveFacts& calls, const RunManifest& run) {
  model::RankSet gave_up;
  const model::PythonException* first = nullptr;
  for (const model::PythonException& x : run.exceptions) {
    if (x.kind == model::ExceptionKind::raised && x.rank >= 0 &&
        (waited_for_peers(x) || says_backend_gave_up(x))) {
      gave_up.insert(x.rank);
      first = first == nullptr || x.at_s < first->at_s ? &x : first;
    }
  }
  if (first != nullptr) {
    if (auto found = find_fault_of_failure(calls, gave_up, first->rank)) {
      return std::move(found->finding);
    }
  }
  return find_call_fault(calls);
}

// The smallest call that the GPU may be in; 0 if there are calls of which the record has no size.
uint64_t least_count(const Facts& facts, base::Rank rank) {
  uint64_t least = UINT64_MAX;
  for (const model::RankCollectives& r : facts.collectives.ranks) {
    for (size_t i = 0; r.rank == rank && i < r.communicators.size(); ++i) {
      const model::Communicator& c = r.communicators[i];
      if (c.source != model::CallSource::nccl) {
        continue;
      }
      if (c.messages_done < c.messages ||
          (c.done < c.called && (c.calls.empty() || c.calls.front().sequence > c.done + 1))) {
        return 0;
      }
      for (const model::CollectiveCall& call : c.calls) {
        least = call.sequence > c.done ? std::min(least, call.count) : least;
      }
    }
  }
  return least == UINT64_MAX ? 0 : least;
}

size_t node_of(const RankView& v) {
  return v.record != nullptr ? v.record->node : 0;
}

const model::GpuProcess* process_on(const model::GpuDevice& gpu, const RankView& v) {
  const auto it = std::find_if(gpu.processes.begin(), gpu.processes.end(),
                               [&](const model::GpuProcess& p) { return p.pid == v.pid; });
  return gpu.node != node_of(v) || it == gpu.processes.end() ? nullptr : &*it;
}

// A rank may have a context on other GPUs, too: its own one holds most of its memory.
const model::GpuDevice* gpu_of(const RankView& v, const model::GpuState& gpus) {
  const model::GpuDevice* own = nullptr;
  int64_t most = 0;
  for (const model::GpuDevice& gpu : gpus.devices) {
    const model::GpuProcess* p = process_on(gpu, v);
    if (p != nullptr && p->memory_bytes > most) {
      own = &gpu;
      most = p->memory_bytes;
    }
  }
  return own;
}

bool only_ranks_use(const model::GpuDevice& gpu, const std::vector<RankView>& ranks) {
  return std::all_of(gpu.processes.begin(), gpu.processes.end(), [&](const model::GpuProcess& p) {
    return std::any_of(ranks.begin(), ranks.end(),
                       [&](const RankView& v) { return v.pid == p.pid && gpu.node == node_of(v); });
  });
}

// All ranks wait, and NCCL's kernel runs on the GPU of some: a rank whose host waits for its GPU, and whose
// GPU runs something else or nothing, does not wait for the others. It is stuck then. Nothing is known if the
// counters of a rank's GPU are not, or if another process uses this GPU.
void tell_kernels_apart(std::vector<RankView>& ranks, const Facts& facts) {
  std::map<const model::GpuDevice*, int> used;
  std::vector<RunningKernel> works;
  bool some_nccl = false;
  for (const RankView& v : ranks) {
    const model::GpuDevice* gpu = gpu_of(v, facts.gpus);
    if (v.state != RankState::waiting || gpu == nullptr || !only_ranks_use(*gpu, ranks) || ++used[gpu] > 1) {
      return;
    }
    works.push_back(running_kernel(*gpu, least_count(facts, v.rank)));
    if (works.back() == RunningKernel::unknown) {
      return;
    }
    some_nccl = some_nccl || works.back() == RunningKernel::nccl;
  }
  for (size_t i = 0; some_nccl && i < ranks.size(); ++i) {
    RankView& v = ranks[i];
    if (works[i] == RunningKernel::nccl || !v.wait || v.wait->kind != WaitKind::gpu) {
      continue;
    }
    v.wait->kind = WaitKind::kernel;
    v.wait->what = works[i] == RunningKernel::other ? base::later("kernel of its own")
                                                    : base::later("kernel that does not start");
    v.state = RankState::stuck;
  }
}

}  // namespace

Scene::Scene(const Facts& f)
    : facts(f),
      ranks(rank_views(f)),
      endings(endings_of(f.run)),
      call_fault(fault_in(with_places(waited_for(f.collectives, ranks), ranks), f.run)),
      silent_mismatch(find_silent_mismatch(f.mismatch.empty() ? f.collectives : f.mismatch)) {
  call_fault = from_origin(std::move(call_fault), silent_mismatch);
  if (!call_fault || call_fault->fault == CallFault::all_entered) {
    tell_kernels_apart(ranks, facts);
  }
  find_vain_waits();
  set_apart();
}

// Who asks a process of its own for a result again and again moves. It does not work where this process has
// stood still for the timeout, or can never go on.
void Scene::find_vain_waits() {
  const double timeout_s = facts.dump ? facts.dump->hang_timeout_s : 0;
  double longest_s = 0;
  for (const RankView& v : ranks) {
    longest_s = v.state == RankState::waiting ? std::max(longest_s, v.seconds) : longest_s;
  }
  for (RankView& v : ranks) {
    const bool polls = v.state == RankState::busy && v.only_moved && v.waits_locally();
    if (!polls && v.state != RankState::stuck) {
      continue;
    }
    v.state = RankState::stuck;
    const auto helper = awaited_helper(*this, v);
    v.in_vain = helper && helper->stacks != nullptr && waits_in_vain(*this, *helper->stacks);
    const bool stands = helper && timeout_s > 0 && helper->still_s >= timeout_s;
    if (polls && (v.in_vain || stands)) {
      v.seconds = std::max(v.seconds, longest_s);
      v.still_share = 1;
    } else if (polls) {
      v.state = RankState::busy;
    }
  }
}

model::RankSet Scene::ranks_on(const model::GpuDevice& gpu) const {
  model::RankSet out;
  for (const RankView& v : ranks) {
    if (gpu_of(v, facts.gpus) == &gpu) {
      out.insert(v.rank);
    }
  }
  return out;
}

// Each of these ranks that lives waits for a primitive of multiprocessing, which does not say who shares it.
bool wait_for_anybody(const std::vector<RankView>& all, const model::RankSet& ranks) {
  return std::all_of(all.begin(), all.end(), [&](const RankView& v) {
    const bool waits =
        v.state == RankState::waiting && v.thread != nullptr && in_multiprocessing(v.thread->frames);
    return !ranks.contains(v.rank) || v.state == RankState::dead || waits;
  });
}

// Ranks of other stalls do not matter here, unless the ranks of this one may wait for them. Unless a rank
// waits for others, neither do ranks outside this stall: they move.
void Scene::set_apart() {
  const auto& stalls = facts.run.stalls;
  const auto judged = std::find_if(stalls.begin(), stalls.end(), [&](const Stall& s) {
    return !facts.dump_dir.empty() && s.dump == facts.dump_dir && !s.ranks.empty();
  });
  if (judged == stalls.end() || facts.run.nodes.size() > 1) {
    return;
  }
  for (const Stall& s : stalls) {
    if (s.cleared_s < 0 && &s != &*judged) {
      in_other_stalls_.insert(s.ranks.minus(judged->ranks));
    }
  }
  const auto stands = [&](const RankView& v) {
    return v.state == RankState::dead || judged->ranks.contains(v.rank) || in_other_stalls_.contains(v.rank);
  };
  const auto waits = [](const RankView& v) { return v.state == RankState::waiting; };
  // The whole job stands, rank after rank, and no wait tells stalls apart: it is one stall.
  if (std::all_of(ranks.begin(), ranks.end(), stands) && std::none_of(ranks.begin(), ranks.end(), waits)) {
    in_other_stalls_ = {};
  }
  if (wait_for_anybody(ranks, judged->ranks)) {
    in_other_stalls_ = in_other_stalls_.minus(ranks_of(in({RankState::stuck, RankState::busy})));
  }
  const bool some_wait = std::any_of(ranks.begin(), ranks.end(), [&](const RankView& v) {
    return waits(v) && !in_other_stalls_.contains(v.rank);
  });
  for (RankView& v : ranks) {
    const bool moves =
        v.state == RankState::stuck || v.state == RankState::busy || v.state == RankState::silent;
    const bool outside = !judged->ranks.contains(v.rank) && moves && !some_wait;
    const bool alive = v.state != RankState::dead;
    v.apart = alive && (outside || in_other_stalls_.contains(v.rank));
  }
}

double Scene::dump_at_s() const {
  if (facts.dump && facts.dump->at_s > 0) {
    return facts.dump->at_s;  // of what was seen of the ranks, which may be later than their stacks
  }
  const auto& dumps = facts.run.dumps;
  const auto dump = std::find_if(dumps.begin(), dumps.end(),
                                 [&](const model::DumpRecord& d) { return d.dir == facts.dump_dir; });
  return dump == dumps.end() ? facts.run.elapsed_s : dump->at_s;
}

bool Scene::others_work() const {
  return std::any_of(ranks.begin(), ranks.end(), [&](const RankView& v) {
    const bool polls = v.seen != nullptr && v.seen->outside == model::OutsideWait::polling;
    return v.apart && (polls || v.state == RankState::busy || !in_other_stalls_.contains(v.rank));
  });
}

Views Scene::in(std::initializer_list<RankState> states) const {
  Views out;
  for (const RankView& v : ranks) {
    if (!v.apart && std::find(states.begin(), states.end(), v.state) != states.end()) {
      out.push_back(&v);
    }
  }
  return out;
}

Views Scene::all() const {
  Views out;
  for (const RankView& v : ranks) {
    out.push_back(&v);
  }
  return out;
}

const Ending* Scene::ending_of(const RankView& v) const {
  const auto it = std::find_if(endings.begin(), endings.end(), [&](const Ending& e) {
    return v.record != nullptr ? e.process == v.record
                               : e.process->pid == v.pid && (facts.run.nodes.empty() ||
                                                             host_of(facts.run, e.process->node) == v.host);
  });
  return it == endings.end() ? nullptr : &*it;
}

namespace {

const Ending* first_failure(const std::vector<Ending>& endings, const RunManifest& run) {
  const auto current = current_ranks(run);
  const Ending* first = nullptr;
  for (const Ending& e : endings) {
    if (first != nullptr && (!first->in_wait || run.nodes.size() < 2)) {
      break;
    }
    const bool latest = std::find(current.begin(), current.end(), e.process) != current.end();
    if (!latest || e.follower || !e.failed()) {
      continue;
    }
    // The clocks cannot order failures on two nodes. A failure in a call that waits for other ranks may be
    // the consequence of the other failure.
    const bool earlier =
        first == nullptr || (!e.in_wait && e.at_s - first->at_s <= order_uncertainty_s(run, e, *first));
    first = earlier ? &e : first;
  }
  return first;
}

// A rank that stood still and then exits with 0, before any rank fails, has moved again, even if no poll saw
// it; unless the signal that ended the job has made it exit.
bool culprits_left(const RunManifest& run, const Stall& stall, const std::vector<Ending>& endings) {
  model::RankSet left;
  for (const Ending& e : endings) {
    if (e.process->role != model::ProcessRole::rank || e.at_s < stall.at_s) {
      continue;
    }
    if (e.failed() || (ended_by_interrupt(run) && after_interrupt(run, e))) {
      break;
    }
    if (!e.follower) {
      left.insert(e.process->rank);
    }
  }
  return !stall.verdict.ranks.empty() && left.contains(stall.verdict.ranks);
}

// A stall also counts as cleared when its ranks have died. It passed by itself only if no rank had failed by
// then, or if a restart of the ranks ended it.
bool passed(const RunManifest& run, const Stall& stall, const std::vector<Ending>& endings) {
  if (stall.restarted_s >= 0 || culprits_left(run, stall, endings)) {
    return true;
  }
  return stall.cleared_s >= 0 && std::none_of(endings.begin(), endings.end(), [&](const Ending& e) {
           return e.process->role == model::ProcessRole::rank && e.failed() && e.at_s >= stall.at_s &&
                  e.at_s <= stall.cleared_s;
         });
}

}  // namespace

const Ending* Scene::root_failure() const {
  return first_failure(endings, facts.run);
}

std::string Scene::names(const model::RankSet& some) const {
  std::string words = rank_words(some);
  if (facts.run.nodes.size() < 2) {
    return words;
  }
  const std::string* host = nullptr;
  for (const RankView& v : ranks) {
    if (!some.contains(v.rank)) {
      continue;
    }
    if (host != nullptr && *host != v.host) {
      return words;
    }
    host = &v.host;
  }
  return host == nullptr || host->empty() ? words : tr("{} (host {})", words, base::sanitize(*host));
}

std::vector<const model::RunNode*> Scene::gaps() const {
  std::vector<const model::RunNode*> out;
  for (const model::RunNode& node : facts.run.nodes) {
    if (!node.gap.empty()) {
      out.push_back(&node);
    }
  }
  return out;
}

model::RankSet Scene::unheard() const {
  model::RankSet out;
  for (const model::RunNode& node : facts.run.nodes) {
    if (!node.answered) {
      out.insert(node.ranks);
    }
  }
  return out;
}

const Stall* stall_that_matters(const RunManifest& run) {
  if (run.stalls.empty()) {
    return nullptr;
  }
  const Stall* open = model::current_stall(run);
  const Stall& last = open != nullptr ? *open : run.stalls.back();
  if (run.outcome == model::RunOutcome::hang) {
    const auto ended = std::find_if(run.stalls.rbegin(), run.stalls.rend(),
                                    [](const Stall& s) { return s.action == model::HangAction::kill; });
    return ended != run.stalls.rend() ? &*ended : &last;
  }
  const auto endings = endings_of(run);
  if (passed(run, last, endings)) {
    return nullptr;
  }
  const Ending* failure = first_failure(endings, run);
  const bool interrupted = ended_by_interrupt(run);
  // Whoever ends a rank that stands still makes it raise KeyboardInterrupt, or fail in some other way.
  if (failure == nullptr || (interrupted && after_interrupt(run, *failure)) ||
      (by_sigint(*failure) && failure->at_s >= last.at_s)) {
    return &last;
  }
  if (failure->at_s < last.at_s) {
    // A rank had died and the others wait: a hang until somebody ends it, once it has been looked at, else a
    // crash.
    const bool lasts = run.outcome == model::RunOutcome::running || interrupted;
    return lasts && !last.dump.empty() ? &last : nullptr;
  }
  // The stall never ended. If a waiting rank fails, the job's own timeout ended it; if a culprit fails, or a
  // rank that has nothing to do with a stall that was only suspected, that failure is the verdict.
  const base::Rank rank = failure->process->rank;
  const bool unrelated = !last.ranks.empty() && !last.ranks.contains(rank) && last.verdict.waiting.empty() &&
                         last.verdict.level == model::VerdictLevel::suspected;
  return unrelated || last.verdict.ranks.contains(rank) ? nullptr : &last;
}

bool outlasted(const Scene& scene) {
  const auto& stalls = scene.facts.run.stalls;
  const auto judged = std::find_if(stalls.begin(), stalls.end(), [&](const Stall& s) {
    return !scene.facts.dump_dir.empty() && s.dump == scene.facts.dump_dir;
  });
  return scene.facts.dump && judged != stalls.end() && judged->since_s >= 0 &&
         scene.facts.dump->at_s - judged->since_s >= kStillTimeouts * scene.facts.dump->hang_timeout_s;
}

bool was_no_hang(const Stall& stall) {
  return !stall.dump.empty() && !stall.pending && stall.verdict.kind != model::VerdictKind::hang;
}

bool escalated(const Scene& scene) {
  return scene.facts.dump && scene.facts.dump->escalated;
}

}  // namespace xpurun::report
