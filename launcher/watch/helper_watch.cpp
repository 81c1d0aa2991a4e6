#include "launcher/watch/helper_watch.h"

#include "common/base/hash.h"
#include "common/base/os/io.h"
#include "common/base/os/open_files.h"
#include "common/base/strings.h"
#include "launcher/watch/common_place.h"
#include "stackdump/memory/live_memory.h"
#include "stackdump/resolve/wait_target.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace xpurun::launcher {

using model::OutsideWait;

namespace {

constexpr size_t kFrames = 24;       // of the main thread
constexpr size_t kMostThreads = 64;  // Python threads
constexpr size_t kMostProcesses = 64;
constexpr size_t kMostReaders = 16;                 // processes whose Python position is read
constexpr base::MonoNs kShortestGap = 100'000'000;  // Shortest time between two polls, in ns.
constexpr base::MonoNs kOpenAgain = 2'000'000'000;
constexpr base::MonoNs kPipesKept = 5'000'000'000;
// A thread that has left its sleep without progress sleeps in a loop.
constexpr int kWakes = 1;
constexpr size_t kVotes = 5;  // samples that decide on the reason of a wait
constexpr int kMostAwake =
    3;  // samples that meet the thread awake before they say more than the earlier ones
constexpr size_t kMostNative = 256;  // threads
// Threads of libraries that spin while they wait for a GPU or the network.
constexpr std::array<std::string_view, 4> kSpinning = {"nccl", "NCCL", "cuda", "CUDA"};

// An event loop of a library that runs nothing of the program's.
bool only_loops(const std::vector<stackdump::CodeLine>& lines) {
  return !lines.empty() && !in_users_code(lines) &&
         std::any_of(lines.begin(), lines.end(),
                     [](const stackdump::CodeLine& line) { return is_of_event_loop(line.file); });
}

// Received and sent by the process's network, other than within it. Of one process nothing is known; where
// the host is busy, an event loop may be, too.
uint64_t network_bytes(const base::ProcFs& proc, base::Pid pid) {
  constexpr size_t kMostTable = 1 << 16;
  constexpr size_t kSent = 8;  // column, counted from the received bytes
  uint64_t out = 0;
  const std::string text = base::read_file(proc.path(pid, "net/dev"), kMostTable).value_or("");
  for (const std::string_view line : base::split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || base::trim(line.substr(0, colon)) == "lo") {
      continue;
    }
    std::vector<std::string_view> columns = base::split(line.substr(colon + 1), ' ');
    std::erase_if(columns, [](std::string_view word) { return base::trim(word).empty(); });
    for (const size_t column : {size_t{0}, kSent}) {
      out += column < columns.size()
                 ? static_cast<uint64_t>(std::max<int64_t>(base::parse_int(columns[column]).value_or(0), 0))
                 : 0;
    }
  }
  return out;
}

// These processes and all below them.
std::unordered_set<base::Pid> trees_of(const std::set<base::Pid>& roots,
                                       const std::vector<Descendant>& processes) {
  std::unordered_multimap<base::Pid, base::Pid> children;
  for (const Descendant& p : processes) {
    children.emplace(p.parent, p.pid);
  }
  std::unordered_set<base::Pid> out;
  std::vector<base::Pid> next(roots.begin(), roots.end());
  while (!next.empty()) {
    const base::Pid pid = next.back();
    next.pop_back();
    if (out.insert(pid).second) {
      const auto [begin, end] = children.equal_range(pid);
      std::transform(begin, end, std::back_inserter(next), [](const auto& entry) { return entry.second; });
    }
  }
  return out;
}

}  // namespace

void HelperWatch::forget() {
  progress_.forget();
  children_.clear();
  wait_ = {};
  reason_ = {};
  reasons_.clear();
  awake_ = 0;
  last_look_ = 0;
  rate_at_ = 0;
  wake_rate_ = 0;
  sleeps_ = false;
  transfers_.forget();
  transferred_ = false;
  slept_ = false;
  woken_ = 0;
}

void HelperWatch::held() {
  held_ = true;
  transfers_.forget();
  for (auto& [pid, child] : children_) {
    child.transfers.forget();
    child.loop.held();
  }
}

// Counts only between two samples that both meet the thread asleep. A stop for a dump wakes the thread as
// well, so that a sample right after a dump does not count.
bool HelperWatch::wakes(bool asleep) {
  const auto status = proc_.thread_status(rank_, rank_);
  if (!asleep || !status) {
    return woken_ >= kWakes;
  }
  if (slept_ && !held_ && status->voluntary_switches != switches_) {
    ++woken_;
  }
  switches_ = status->voluntary_switches;
  slept_ = true;
  held_ = false;
  return woken_ >= kWakes;
}

// One sample may meet the thread between two waits, so that most of several samples decide.
void HelperWatch::vote(const WaitReason& reason) {
  reasons_.push_back(reason);
  if (reasons_.size() > kVotes) {
    reasons_.pop_front();
  }
  const auto votes = [&](const WaitReason& r) { return std::count(reasons_.begin(), reasons_.end(), r); };
  reason_ = reasons_.front();
  for (const WaitReason& r : reasons_) {
    reason_ = votes(r) >= votes(reason_) ? r : reason_;
  }
}

// After a stop by xpurun, the kernel restarts some calls under another number (restart_syscall). The thread
// has made no progress then, so the old call stays.
KernelWait HelperWatch::current_wait() {
  KernelWait wait = kernel_wait(proc_, rank_);
  if (wait.kind != KernelWaitKind::restarted) {
    wait_ = std::move(wait);
  }
  return wait_;
}

// Costs one readlink() per descriptor, so the results are cached for a while.
bool HelperWatch::holds(base::MonoNs now, base::Pid pid, const std::set<std::string>& pipes) {
  if (pipes != pipes_ || now - pipes_at_ > kPipesKept) {
    holders_.clear();
    pipes_ = pipes;
    pipes_at_ = now;
  }
  const auto known = holders_.find(pid);
  if (known != holders_.end() || pipes.empty() || holders_.size() >= kMostProcesses) {
    return known != holders_.end() && known->second;
  }
  return holders_[pid] = has_open(proc_, pid, pipes);
}

std::set<base::Pid> HelperWatch::awaited(base::MonoNs now, const KernelWait& wait,
                                         const std::vector<Descendant>& processes) {
  std::set<base::Pid> out;
  for (const Descendant& p : processes) {
    const bool child =
        wait.kind == KernelWaitKind::child && (wait.child == p.pid || (wait.child == 0 && p.parent == rank_));
    if (child || holds(now, p.pid, wait.pipes)) {
      out.insert(p.pid);
    }
  }
  return out;
}

// No other thread of the rank runs Python.
bool HelperWatch::runs_alone(stackdump::PositionReader* reader) {
  const auto others =
      reader != nullptr ? reader->other_threads(1) : base::Result<std::vector<stackdump::ThreadPosition>>();
  return reader != nullptr && others && others->empty();
}

void HelperWatch::sample_threads(stackdump::PositionReader& reader, std::vector<HelperSample>& out) const {
  const auto threads = reader.other_threads(kMostThreads, is_users_file);
  if (!threads) {
    return;
  }
  for (const stackdump::ThreadPosition& t : *threads) {
    HelperSample s{.key = {.pid = rank_, .tid = static_cast<base::Tid>(t.native_id)},
                   .bond = HelperBond::thread,
                   .has_position = true,
                   .loops = only_loops(t.lines)};
    s.position = s.loops ? 0 : t.fingerprint;
    s.io_bytes = s.loops ? network_bytes(proc_, rank_) : 0;
    const auto stat = proc_.thread_stat(rank_, s.key.tid);
    if (s.key.tid == 0 || !stat) {
      // Before 3.11, CPython does not record the kernel thread id, so the CPU time of a Python thread is
      // unknown and the thread can only raise doubt.
      s.key.tid = -1 - static_cast<base::Tid>(out.size());
    } else {
      s.cpu_s = base::ticks_to_s(stat->utime_ticks + stat->stime_ticks);
    }
    out.push_back(s);
  }
}

// Threads without Python: those of a tokeniser, of OpenMP, of a library for files. They only raise doubt,
// because a thread may also spin while it waits.
void HelperWatch::sample_native_threads(std::vector<HelperSample>& out) const {
  std::set<base::Tid> known = {rank_};
  for (const HelperSample& s : out) {
    known.insert(s.key.tid);
  }
  size_t left = kMostNative;
  for (const base::Tid tid : proc_.threads(rank_)) {
    if (left == 0 || known.contains(tid)) {
      continue;
    }
    --left;
    const auto stat = proc_.thread_stat(rank_, tid);
    const bool spins = stat && std::any_of(kSpinning.begin(), kSpinning.end(), [&](std::string_view name) {
                         return stat->comm.find(name) != std::string::npos;
                       });
    if (stat && !spins) {
      out.push_back({.key = {.pid = rank_, .tid = tid},
                     .bond = HelperBond::thread,
                     .cpu_s = base::ticks_to_s(stat->utime_ticks + stat->stime_ticks)});
    }
  }
}

void HelperWatch::read_position(base::MonoNs now, Child& child) const {
  if (!child.reader && now >= child.next_open) {
    child.next_open = now + kOpenAgain;
    if (auto opened = stackdump::PositionReader::open(child.process.pid)) {
      child.reader.emplace(std::move(*opened));
    }
  }
  if (!child.reader) {
    return;
  }
  if (auto position = child.reader->read(is_users_file)) {
    const bool known = child.position.has_python;
    child.position = std::move(*position);
    child.user_place = place_in_user_code(child.position.lines);
    child.loops = only_loops(child.position.lines);
    const bool main_moves = child.loop.moves(now, child.position, proc_.main_run_time(child.process.pid));
    const bool moves = child.loops ? threads_move(child) : main_moves;
    child.moves += moves && known ? 1 : 0;
  } else {
    child.reader.reset();
    child.loop.forget();
    child.position = {};
  }
}

// A worker of dask or Ray runs its tasks in threads, and a loop beside them.
bool HelperWatch::threads_move(Child& child) {
  const auto threads = child.reader->other_threads(kMostThreads, is_users_file);
  if (!threads) {
    return false;
  }
  uint64_t all = 0;
  for (const stackdump::ThreadPosition& t : *threads) {
    all = in_users_code(t.lines) ? base::hash_words(all, {t.fingerprint}) : all;
  }
  const auto before = std::exchange(child.threads, all);
  return before && *before != all;
}

bool HelperWatch::sample_processes(base::MonoNs now, const KernelWait& wait,
                                   const std::vector<Descendant>& processes, std::vector<HelperSample>& out) {
  const std::set<base::Pid> roots = awaited(now, wait, processes);
  const std::unordered_set<base::Pid> trees = trees_of(roots, processes);
  std::vector<std::pair<HelperBond, const Descendant*>> chosen;
  for (const Descendant& p : processes) {
    const bool is_awaited = trees.contains(p.pid);
    // If a process is awaited, the others cannot end the wait.
    if (roots.empty() || is_awaited) {
      chosen.emplace_back(is_awaited ? HelperBond::awaited
                          : p.forked ? HelperBond::pool
                                     : HelperBond::other,
                          &p);
    }
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  chosen.resize(std::min(chosen.size(), kMostProcesses));
  std::erase_if(children_, [&](const auto& entry) {
    return std::none_of(chosen.begin(), chosen.end(),
                        [&](const auto& c) { return c.second->pid == entry.first; });
  });
  size_t readers = 0;
  for (const auto& [bond, process] : chosen) {
    const auto stat = proc_.stat(process->pid);
    if (!stat || stat->state == 'Z' || stat->state == 'X') {
      continue;
    }
    Child& child = children_[process->pid];
    child.process = *process;
    if (process->python && readers++ < kMostReaders) {
      read_position(now, child);
    }
    note_transfer(child);
    if (!process->python && bond == HelperBond::awaited) {
      name_call(child);
    }
    const base::ProcIo io = proc_.io(process->pid);
    out.push_back({.key = {.pid = process->pid},
                   .bond = bond,
                   .has_position = child.position.has_python && !child.loops,
                   .loops = child.loops,
                   .position = child.moves,
                   .cpu_s = base::ticks_to_s(stat->utime_ticks + stat->stime_ticks + stat->children_ticks),
                   .io_bytes = io.read_chars + io.write_chars});
  }
  return !roots.empty() &&
         std::all_of(chosen.begin(), chosen.end(), [&](const auto& c) { return is_quiet(*c.second); });
}

// Data of sockets are not among the counted bytes of a process.
void HelperWatch::note_transfer(Child& child) const {
  const base::Pid pid = child.process.pid;
  const KernelWait wait = kernel_wait(proc_, pid);
  child.reads_input = wait.kind == KernelWaitKind::input;
  const auto status =
      wait.transfers ? proc_.thread_status(pid, pid) : base::Result<base::ProcStatus>(base::fail(""));
  child.moves += status && child.transfers.add(wait, status->voluntary_switches) ? 1 : 0;
}

// Only where the call is another one than before: its peers cost a look at all processes.
void HelperWatch::name_call(Child& child) const {
  const base::Pid pid = child.process.pid;
  stackdump::KernelView now = stackdump::read_kernel_view(pid, pid, proc_);
  if (stackdump::same_system_call(now.syscall_text, child.waits_in.syscall_text)) {
    return;
  }
  stackdump::LiveMemory memory(pid);
  const auto maps = stackdump::ProcMaps::read(pid);
  stackdump::name_wait(pid, memory, maps.value_or(stackdump::ProcMaps()), now, proc_);
  stackdump::name_peers(now, stackdump::Wanted::readers_and_writers, proc_);
  child.waits_in = std::move(now);
}

// True if the program only sleeps or waits for an external event: `sleep 600`, a client that waits for its
// server. A program that writes to a full pipe or waits for a lock is not quiet.
bool HelperWatch::is_quiet(const Descendant& process) const {
  switch (kernel_wait(proc_, process.pid).kind) {
    case KernelWaitKind::sleep:
    case KernelWaitKind::events:
    case KernelWaitKind::accept:
    case KernelWaitKind::signal:
    case KernelWaitKind::child:
    case KernelWaitKind::input:
    case KernelWaitKind::restarted:
      return !process.python;
    default:
      return false;
  }
}

// Wakes are counted only for a sleeping thread. A loop with pauses that are long compared to the timeout
// wakes rarely, so wakes count from the beginning of the stillness.
void HelperWatch::watch_sleep(base::MonoNs now) {
  if (last_look_ != 0 && now - last_look_ < kShortestGap) {
    return;
  }
  const KernelWait wait = kernel_wait(proc_, rank_);
  note_wakes(now, wait);
  if (wait.kind == KernelWaitKind::sleep) {
    (void)wakes(true);
    last_look_ = now;
  }
}

void HelperWatch::note_wakes(base::MonoNs now, const KernelWait& wait) {
  constexpr base::MonoNs kLeast = 100'000'000;
  const auto status = rate_at_ == 0 || now - rate_at_ >= kLeast
                          ? proc_.thread_status(rank_, rank_)
                          : base::Result<base::ProcStatus>(base::fail("too early"));
  if (!status) {
    return;
  }
  const uint64_t wakes = status->voluntary_switches;
  if (rate_at_ != 0 && wakes >= rate_from_) {
    wake_rate_ = static_cast<double>(wakes - rate_from_) / base::ns_to_s(now - rate_at_);
  }
  sleeps_ = wait.kind == KernelWaitKind::sleep;
  transferred_ = transfers_.add(wait, wakes);
  rate_from_ = wakes;
  rate_at_ = now;
}

void HelperWatch::look(base::MonoNs now, stackdump::PositionReader* reader,
                       const std::vector<Descendant>& processes) {
  if (last_look_ != 0 && now - last_look_ < kShortestGap) {
    return;
  }
  last_look_ = now;
  const KernelWait wait = current_wait();
  note_wakes(now, wait);
  const bool woken = wakes(wait.kind == KernelWaitKind::sleep);
  std::vector<stackdump::CodeName> frames;
  if (reader != nullptr) {
    frames = reader->innermost(kFrames).value_or(std::vector<stackdump::CodeName>());
  }
  if (wait.sockets != sockets_) {
    sockets_ = wait.sockets;
    listens_ = listens(proc_, rank_, sockets_);
    wakes_itself_ = sockets_.size() == 1 && wakes_itself(proc_, rank_, *sockets_.begin());
  }
  const bool is_own = wait.own && (wait.sockets.empty() ? !wait.endless : wakes_itself_);
  WaitReason reason = wait_reason(frames, {.kernel = wait.kind,
                                           .wakes = woken,
                                           .has_helpers = !processes.empty(),
                                           .listens = listens_,
                                           .alone = is_own && runs_alone(reader)});
  const bool awake = wait.kind == KernelWaitKind::none && reason.target == WaitTarget::nobody;
  awake_ = awake ? awake_ + 1 : 0;
  const bool says_nothing = awake && awake_ <= kMostAwake && !reasons_.empty();
  const WaitTarget target = says_nothing ? reason_.target : reason.target;
  std::vector<HelperSample> samples;
  if (target == WaitTarget::helpers || target == WaitTarget::outside) {
    if (reader != nullptr) {
      sample_threads(*reader, samples);
    }
    if (sample_processes(now, wait, processes, samples)) {
      reason.outside = OutsideWait::child;
    }
    if (target == WaitTarget::helpers) {
      sample_native_threads(samples);
    }
  }
  progress_.update(now, samples);
  if (!says_nothing) {
    vote(reason);
  }
}

std::map<base::Pid, model::CodeLocation> HelperWatch::places() const {
  std::map<base::Pid, model::CodeLocation> out;
  for (const auto& [pid, child] : children_) {
    if (!child.user_place.file.empty() && is_users_file(child.user_place.file)) {
      out.emplace(pid, child.user_place);
    }
  }
  return out;
}

std::vector<model::HelperObservation> HelperWatch::observe(base::MonoNs now) const {
  struct Ranked {
    HelperBond bond;
    model::HelperObservation seen;
  };
  std::vector<Ranked> all;
  for (const auto& [key, helper] : progress_.helpers()) {
    const auto child = children_.find(key.pid);
    if (key.tid != 0 || child == children_.end()) {
      continue;
    }
    const stackdump::Position& at = child->second.position;
    all.push_back({.bond = helper.bond,
                   .seen = {.pid = key.pid,
                            .name = child->second.process.name,
                            .python = child->second.process.python,
                            .awaited = helper.bond == HelperBond::awaited,
                            .reads_input = child->second.reads_input,
                            .parent = child->second.process.parent,
                            .syscall = child->second.waits_in.syscall,
                            .syscall_file = base::sanitize(child->second.waits_in.syscall_file),
                            .target = base::sanitize(child->second.waits_in.target),
                            .peers = child->second.waits_in.peers,
                            .lock = child->second.waits_in.lock,
                            .life = helper.life,
                            .still_s = base::ns_to_s(now - helper.last_motion),
                            .cpu_share = helper.cpu_share,
                            .function = at.function,
                            .file = at.file,
                            .line = at.line}});
  }
  std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) {
    return a.seen.life != b.seen.life ? a.seen.life > b.seen.life : a.bond < b.bond;
  });
  std::vector<model::HelperObservation> out;
  for (size_t i = 0; i < std::min(all.size(), kMostObserved); ++i) {
    out.push_back(std::move(all[i].seen));
  }
  return out;
}

}  // namespace xpurun::launcher
