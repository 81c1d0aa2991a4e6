// gloo lets different calls meet, and ends a rank that gets a longer message than it waits for. Which rank
// dies is chance: what the ranks were in says who has departed. The same where none dies, or where a rank has
// ended and others wait for it without a call that is known.
#include "common/base/tr.h"
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/collectives/departures.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/rules/last_place.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::Verdict;

namespace {

bool got_foreign_message(const Scene& scene, const Ending& failure) {
  if (failure.raised()) {
    const auto& chain = failure.exception->chain;
    return std::any_of(chain.begin(), chain.end(),
                       [](const model::ExceptionLink& link) { return says_foreign_message(link.message); });
  }
  const model::ThreadStack* crashed = crashed_thread(scene, failure);
  return crashed != nullptr && says_foreign_message(crashed->cpp_exception.message);
}

// The call that the rank's program is in, or has failed in.
std::optional<Wait> call_of(const Scene& scene, const RankView& v) {
  const Ending* e = scene.ending_of(v);
  if (e != nullptr && e->raised()) {
    return wait_left_by(*e->exception);
  }
  const model::ThreadStack* main = v.stacks != nullptr ? v.stacks->main_thread() : nullptr;
  return v.state == RankState::waiting || main == nullptr ? v.wait
         : runs_python(*main)                             ? find_wait(main->frames, {.idle = true})
                                                          : std::nullopt;
}

// The calls of all ranks, those of most ranks first.
std::vector<model::Waiting> calls_that_met(const Scene& scene) {
  std::vector<RankView> in_calls;
  for (const RankView& v : scene.ranks) {
    const auto call = call_of(scene, v);
    if (call && waits_for_peers(call->kind) && !call->where.empty()) {
      in_calls.push_back(v);
      in_calls.back().wait = call;
    }
  }
  // An exception does not say which call of C++ "backward" was in.
  std::vector<model::Waiting> out;
  for (const model::Waiting& call : waiting_groups(pointers_to(in_calls))) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const model::Waiting& w) {
      return w.where.file == call.where.file && w.where.line == call.where.line;
    });
    if (same == out.end()) {
      out.push_back(call);
      continue;
    }
    same->ranks.insert(call.ranks);
    same->what = std::max(same->what, call.what);
  }
  std::stable_sort(out.begin(), out.end(), [](const model::Waiting& a, const model::Waiting& b) {
    return a.ranks.size() > b.ranks.size();
  });
  return out;
}

// "rank 2 was in all_reduce (train.py:17), ranks 0-1 in backward (all_reduce) at train.py:12"
std::string calls_words(const Scene& scene, const std::vector<model::Waiting>& calls) {
  std::string out;
  for (const model::Waiting& call : calls) {
    const std::string at = waiting_place(call.what, call.where);
    out += out.empty()
               ? tr("{} {} in {}", scene.names(call.ranks), pick({"was", "were"}, call.ranks.size()), at)
               : tr(", {} in {}", scene.names(call.ranks), at);
  }
  return out;
}

std::string why_elsewhere(const Scene& scene, const model::Waiting& departed) {
  return tr(
      "find out why {} came to {} while the others were elsewhere: a branch, an early end of the "
      "data, or an exception",
      scene.names(departed.ranks), waiting_place(departed.what, departed.where));
}

constexpr uint64_t kStepsOfRoutine = 5;

// "backward (all_reduce)": in a call that C++ makes in each step.
bool is_in_step(const RankView& v, const model::RankCollectives& calls) {
  return calls.steps >= kStepsOfRoutine && v.wait->kind == WaitKind::collective &&
         v.wait->what.starts_with("backward (");
}

bool is_first_from_here(const model::RankCollectives& calls) {
  const model::CollectiveCall* open = call_of_host({&calls});
  if (open == nullptr) {
    return false;
  }
  size_t made = 0;
  for (const model::CallLane& lane : calls.lanes) {
    for (const int kind : lane.order) {
      const auto k = static_cast<size_t>(kind);
      made += k < lane.kinds.size() && lane.kinds[k].call.op == open->op &&
              lane.kinds[k].call.where.file == open->where.file &&
              lane.kinds[k].call.where.line == open->where.line;
    }
  }
  return made == 1;
}

const model::RankCollectives* calls_of(const Scene& scene, base::Rank rank) {
  const auto& all = scene.facts.collectives.ranks;
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const model::RankCollectives& r) { return r.rank == rank; });
  return it == all.end() ? nullptr : &*it;
}

constexpr double kSoonS = 30;

// Only another process of the host ends what the rank stands in: a read of a local connection, the lock that
// processes share, a file that the rank looks for again and again.
bool awaits_a_process(const RankView& v) {
  const std::string& target = v.where.target;
  return target.starts_with("127.") || target.starts_with("[::1]") ||
         (v.thread != nullptr && waits_for_shared_lock(*v.thread)) || !polls_words({&v}).empty();
}

}  // namespace

std::optional<Verdict> left_before_waits(const Scene& scene) {
  const Views standing = without_idle(scene.in({RankState::stuck, RankState::busy, RankState::silent}));
  const auto awaits = [](const RankView* v) { return awaits_a_process(*v); };
  if (standing.empty() || !std::all_of(standing.begin(), standing.end(), awaits)) {
    return std::nullopt;
  }
  Views left;
  for (const RankView* v : scene.in({RankState::dead})) {
    if (exited_cleanly(scene, *v) && v->seconds <= longest(standing) + kSoonS) {
      left.push_back(v);
    }
  }
  // If most ranks have left, the others may simply have had more work.
  if (left.empty() || left.size() > standing.size()) {
    return std::nullopt;
  }
  Verdict v = blame(scene, left, {});
  say(v, tr("{}; {} {} in {}", culprit_clauses(scene, group_culprits(scene, left), 0),
            scene.names(ranks_of(standing)), pick({"is", "are"}, standing.size()),
            place(standing.front()->where)));
  return v;
}

std::optional<Verdict> left_the_steps(const Scene& scene) {
  Views left;
  Views kept;
  uint64_t steps = 0;
  for (const RankView* v : scene.in({RankState::waiting})) {
    const model::RankCollectives* calls = calls_of(scene, v->rank);
    if (calls != nullptr && is_in_step(*v, *calls)) {
      kept.push_back(v);
      steps = std::max(steps, calls->steps);
    } else if (calls != nullptr && is_first_from_here(*calls)) {
      left.push_back(v);
    } else {
      return std::nullopt;
    }
  }
  const auto at = waiting_groups(left);
  const auto others = waiting_groups(kept);
  if (at.size() != 1 || others.size() != 1 || left.size() != kept.size()) {
    return std::nullopt;
  }
  Verdict v = begin_hang(scene, {.id = kHangMismatch, .confidence = Confidence::medium},
                         {{.state = RankState::waiting, .views = left}}, kept);
  say(v, tr("{} {} in {} for {} while {} {} in {}, as in the {} steps before", scene.names(ranks_of(left)),
            pick({"has waited", "have waited"}, left.size()), waiting_place(at[0].what, at[0].where),
            seconds_words(longest(left)), scene.names(ranks_of(kept)), pick({"waits", "wait"}, kept.size()),
            waiting_place(others[0].what, others[0].where), steps));
  v.next.text = why_elsewhere(scene, at[0]);
  return v;
}

std::optional<Verdict> met_other_call(const Scene& scene) {
  const Ending* failure = scene.root_failure();
  if (failure == nullptr || !got_foreign_message(scene, *failure)) {
    return std::nullopt;
  }
  std::vector<model::Waiting> calls = calls_that_met(scene);
  if (calls.size() < 2) {
    return std::nullopt;
  }
  const bool crashed = failure->signal != 0 && !failure->raised();
  Verdict v;
  v.id = crashed ? kCrashMismatch : kExitMismatch;
  v.kind = crashed ? model::VerdictKind::crash : model::VerdictKind::exit;
  v.level = model::VerdictLevel::confirmed;
  v.signal = crashed ? failure->signal : 0;
  v.exit_code = crashed ? -1 : failure->exit_code;
  v.seconds = failure->at_s;
  v.dump = scene.facts.dump_dir;
  const bool most = is_majority(calls[0].ranks.size(), scene.ranks.size());
  v.confidence = most ? Confidence::medium : Confidence::low;
  if (most) {
    std::rotate(calls.begin(), calls.begin() + 1, calls.end());
    const model::Waiting& departed = calls.front();
    v.ranks = departed.ranks;
    v.where = departed.where;
    v.waiting = {calls.back()};
    for (const RankView& view : scene.ranks) {
      if (view.rank == departed.ranks.lowest()) {
        v.host = view.host;
        v.pid = view.pid;
      }
    }
    v.next.text = why_elsewhere(scene, departed);
  } else {
    v.waiting = calls;
    v.next.text =
        tr("make all ranks call the same collectives in the same order; look for a branch on the rank "
           "or the data");
  }
  say(v, tr("different calls met: {}; {} {} in it {}", calls_words(scene, calls),
            scene.names({failure->process->rank}), how_it_ended(*failure),
            after_words(scene.facts.run, failure->at_s)));
  return v;
}

}  // namespace xpurun::report
