#include "launcher/processes/process_table.h"

#include "common/base/strings.h"
#include "common/model/secrets/redact.h"
#include "launcher/processes/child_lists.h"
#include "launcher/processes/error_stream.h"
#include "launcher/processes/late_launcher.h"

#include <algorithm>
#include <cerrno>
#include <signal.h>

namespace xpurun::launcher {

using base::Pid;

namespace {

// The time in which a walk still reads programs and variables.
constexpr base::MonoNs kLongestInspections = 200'000'000;
// In a job of more than kCrowd processes, a settled process is looked at in one of kLooks walks.
constexpr size_t kCrowd = 500;
constexpr uint64_t kLooks = 8;
constexpr base::MonoNs kSettled = 10'000'000'000;
// Of a line of processes from the supervisor down.
constexpr size_t kDeepest = 64;
// Numbers of ended processes that are kept. A job of 512 ranks restarts eight times within the first limit;
// the second one is for the helpers of ranks (data loaders, launchers), and again for all others.
constexpr size_t kMostEndedRanks = 4096;
constexpr size_t kMostEndedOthers = 1000;
// Processes that are asked for their position in a file that they share.
constexpr size_t kMostWriters = 256;

// Whether the end of the process must be noticed at once.
bool matters(const TrackedProcess& p, Pid main, const std::vector<Pid>& roots) {
  return model::takes_part(p.record.role) || p.record.pid == main ||
         std::find(roots.begin(), roots.end(), p.record.pid) != roots.end();
}

bool looks_like_python(const std::string& exe) {
  return base::base_name(exe).starts_with("python");
}

}  // namespace

ProcessTable::ProcessTable(Pid supervisor, base::MonoNs started, base::ProcFs proc)
    : proc_(std::move(proc)), supervisor_(supervisor), started_(started) {}

// The parents of a foreign job's orphans are unknown to xpurun, so the walk starts at every known process. A
// root that has ended is no start: its pid may belong to another program by now.
std::vector<Pid> ProcessTable::walk_starts() const {
  if (!is_foreign()) {
    return {supervisor_};
  }
  std::vector<Pid> out;
  for (const Pid root : roots_) {
    if (find(root) == nullptr) {
      out.push_back(root);
    }
  }
  for (const auto& [pid, p] : processes_) {
    if (p.alive && still_exists(p)) {
      out.push_back(pid);
    }
  }
  return out;
}

bool ProcessTable::still_exists(const TrackedProcess& p) const {
  const auto stat = proc_.stat(p.record.pid);
  return stat && stat->start_ticks == p.record.start_ticks;
}

void ProcessTable::walk() {
  const base::MonoNs now = base::mono_ns();
  ++walk_;
  ChildLists lists(proc_);
  std::unordered_set<Pid> met = {supervisor_};
  std::vector<std::pair<Pid, int64_t>> waiting;  // pid and number of threads
  const auto visit = [&](Pid pid) {
    if (TrackedProcess* p = find(pid); p != nullptr && may_be_skipped(*p, now)) {
      p->walk = walk_;
      return;
    }
    const auto stat = ignored_.count(pid) == 0 && met.insert(pid).second
                          ? proc_.stat(pid)
                          : base::Result<base::ProcStat>(base::fail("not of interest"));
    if (!stat) {
      return;
    }
    waiting.emplace_back(pid, stat->num_threads);
    if (TrackedProcess* p = meet(*stat, now)) {
      p->walk = walk_;
    }
  };
  for (const Pid start : walk_starts()) {
    if (is_foreign()) {
      visit(start);
    } else {
      waiting.emplace_back(start, 0);
    }
  }
  while (!waiting.empty()) {
    const auto [pid, threads] = waiting.back();
    waiting.pop_back();
    const std::vector<Pid> children = lists.of(pid, threads);
    if (TrackedProcess* p = find(pid)) {
      p->leaf = children.empty();
    }
    for (const Pid child : children) {
      visit(child);
    }
  }
}

// Of thousands of processes that have settled and are no concern of xpurun, a walk looks at some only. The
// others exist, because their parents still have them.
bool ProcessTable::may_be_skipped(const TrackedProcess& p, base::MonoNs now) const {
  return processes_.size() > kCrowd && p.alive && p.inspected && p.leaf && p.record.pid != main_ &&
         !model::takes_part(p.record.role) && now - p.seen > kSettled &&
         (static_cast<uint64_t>(p.record.pid) + walk_) % kLooks != 0;
}

TrackedProcess* ProcessTable::meet(const base::ProcStat& stat, base::MonoNs now) {
  if (stat.state == 'Z' || stat.state == 'X') {
    return nullptr;
  }
  auto it = processes_.find(stat.pid);
  // The same pid with another start time is another process: the pid was reused.
  if (it != processes_.end() && it->second.record.start_ticks != stat.start_ticks) {
    lose(it->second);
    it = processes_.find(stat.pid);
    if (it != processes_.end()) {
      const Key key = key_of(it->second);
      dead_.insert_or_assign(key, std::move(it->second));
      processes_.erase(it);
      it = processes_.end();
    }
  }
  if (it == processes_.end()) {
    TrackedProcess p;
    p.record.pid = stat.pid;
    p.record.start_ticks = stat.start_ticks;
    p.record.role = model::ProcessRole::other;
    p.record.comm = stat.comm;
    p.record.seen_s = base::ns_to_s(now - started_);
    p.seen = now;
    it = processes_.emplace(stat.pid, std::move(p)).first;
  }
  TrackedProcess& p = it->second;
  p.record.ppid = stat.ppid;
  // exec nearly always changes the thread name.
  if (p.record.comm != stat.comm) {
    p.record.comm = stat.comm;
    p.inspected = false;
  }
  return &p;
}

// A fork is followed by exec within milliseconds, and by the loading of libraries: a young process is
// inspected again until it has settled.
void ProcessTable::inspect_if_due(TrackedProcess& p, base::MonoNs now) {
  if (!p.inspected || now - p.seen < base::s_to_ns(3)) {
    inspect(p);
  }
}

// Unread processes first. What does not fit into the time waits for the next walk, because a long walk delays
// all of xpurun's work.
void ProcessTable::inspect_all() {
  const base::MonoNs now = base::mono_ns();
  for (const bool unread : {true, false}) {
    for (auto& [pid, p] : processes_) {
      if (p.alive && p.walk == walk_ && p.read_in != walk_ && p.inspected != unread) {
        inspect_if_due(p, now);
        if (base::mono_ns() - now > kLongestInspections) {
          return;
        }
      }
    }
  }
}

void ProcessTable::refresh() {
  walk();
  inspect_all();
  find_lost();
  assign_roles();
  watch_all();
}

// A process without a pidfd gives no event when it ends. One that moved during the walk, because its parent
// ended, still exists. A child of xpurun that has ended is left to the reaper, which gets its status.
void ProcessTable::find_lost() {
  std::vector<Pid> lost;
  for (const auto& [pid, p] : processes_) {
    if (!p.alive || p.pidfd || p.walk == walk_) {
      continue;
    }
    const auto stat = proc_.stat(pid);
    const bool same = stat && stat->start_ticks == p.record.start_ticks;
    const bool ended = !same || stat->state == 'Z' || stat->state == 'X';
    if (ended && !(same && stat->ppid == supervisor_)) {
      lost.push_back(pid);
    }
  }
  for (const Pid pid : lost) {
    lose(processes_.at(pid));
  }
}

void ProcessTable::lose(TrackedProcess& p) {
  if (!p.alive) {
    return;
  }
  if (on_lost_ && matters(p, main_, roots_)) {
    on_lost_(p.record.pid);
  } else {
    mark_dead(p.record.pid);
  }
}

std::vector<base::ProcStat> ProcessTable::unknown_line(Pid pid) const {
  std::vector<base::ProcStat> out;
  Pid at = pid;
  for (size_t depth = 0; depth < kDeepest && at > 1; ++depth) {
    if (ignored_.count(at) != 0) {
      return {};
    }
    const auto stat = proc_.stat(at);
    const TrackedProcess* known = find(at);
    if (!stat || stat->state == 'Z' || stat->state == 'X') {
      return {};
    }
    if (known != nullptr && known->alive && known->record.start_ticks == stat->start_ticks) {
      if (at == pid) {
        out.push_back(*stat);
      }
      std::reverse(out.begin(), out.end());
      return out;
    }
    out.push_back(*stat);
    at = stat->ppid;
    if (at == supervisor_ && !is_foreign()) {
      std::reverse(out.begin(), out.end());
      return out;
    }
  }
  return {};
}

bool ProcessTable::look_at(Pid pid, bool executed) {
  const base::MonoNs now = base::mono_ns();
  bool alone = true;
  for (const base::ProcStat& stat : unknown_line(pid)) {
    TrackedProcess* p = meet(stat, now);
    if (p == nullptr) {
      continue;
    }
    p->inspected = p->inspected && !(executed && stat.pid == pid);
    inspect_if_due(*p, now);
    alone = alone && assign_alone(*p);
    if (alone) {
      watch_if_needed(*p);
    }
  }
  if (!alone) {
    assign_roles();
    watch_all();
  }
  return !alone;
}

// The pidfd is opened before the look at the start time, so that it belongs to this process.
void ProcessTable::watch_if_needed(TrackedProcess& p) {
  if (!p.alive || p.pidfd || !matters(p, main_, roots_)) {
    return;
  }
  if (auto fd = Pidfd::open(p.record.pid); fd && still_exists(p)) {
    p.pidfd = std::move(*fd);
  }
  if ((p.pidfd || !p.told) && on_found_) {
    p.told = true;
    on_found_(p);
  }
}

void ProcessTable::watch_all() {
  for (auto& [pid, p] : processes_) {
    watch_if_needed(p);
  }
}

bool ProcessTable::foreign_job_ended() const {
  const auto lives = [&](Pid root) { return find(root) != nullptr && find(root)->alive; };
  return is_foreign() && std::none_of(roots_.begin(), roots_.end(), lives) && living_ranks().empty();
}

void ProcessTable::inspect(TrackedProcess& p) {
  const Pid pid = p.record.pid;
  p.inspected = true;
  p.read_in = walk_;
  std::string exe = proc_.exe(pid);
  const std::vector<std::string> cmdline = proc_.cmdline(pid);
  const auto environment = proc_.environ(pid);
  // A process that is exiting has lost its memory map, perhaps between these reads. The known data stays.
  if (!p.exe.empty() && (exe.empty() || proc_.exe(pid).empty())) {
    return;
  }
  p.record.cmdline = model::redact_argv(cmdline);
  p.identity = identity_from(environment);
  p.mpi_world = p.identity ? mpi_worlds_.enter(environment, *p.identity) : -1;
  p.identity = p.identity || !members_count_ ? p.identity : p.member;
  if (const auto file = environment.find("TORCHELASTIC_ERROR_FILE"); file != environment.end()) {
    p.record.error_file = file->second;
  }
  p.record.error_stream = error_stream_of(proc_, pid);
  // Between fork and exec a child looks like its parent.
  p.record.python = p.record.python && (p.exe.empty() || exe == p.exe);
  p.exe = std::move(exe);
  const std::string maps = proc_.text(pid, "maps");
  p.record.python =
      p.record.python || looks_like_python(p.exe) || maps.find("libpython") != std::string::npos;
  if (!maps.empty()) {
    p.record.preload = maps.find("libxpurun_preload.so") != std::string::npos;
  }
}

void ProcessTable::signal_main(int signal) const {
  const TrackedProcess* command = find(main_);
  if (command != nullptr && command->pidfd) {
    (void)command->pidfd.send_signal(signal);
  } else if (main_ > 0 && (command == nullptr || command->alive)) {
    (void)::kill(main_, signal);
  }
}

bool ProcessTable::signal(const TrackedProcess& p, int signal) const {
  if (p.pidfd) {
    return p.pidfd.send_signal(signal).has_value();
  }
  const auto fd = Pidfd::open(p.record.pid);
  if (!fd && fd.error().sys_errno == ENOSYS) {
    // Linux before 5.3: between the look and the signal, another process may get the number.
    return still_exists(p) && ::kill(p.record.pid, signal) == 0;
  }
  return fd && still_exists(p) && fd->send_signal(signal);
}

void ProcessTable::mark_dead(Pid pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) {
    return;
  }
  if (it->second.alive) {
    forget_old(it->second);
  }
  it->second.alive = false;
  // A launcher counts as the rank until it has started one.
  if (it->second.record.role != model::ProcessRole::rank || becomes_launcher(it->second.record)) {
    return;
  }
  // A process that a dead rank has started does not become the rank, even with the same variables.
  for (auto& [below, p] : processes_) {
    if (p.alive && p.identity && p.identity == it->second.identity && descends_from(p, pid)) {
      p.left_behind = true;
    }
  }
}

// `ended` joins the ended processes of its kind, and the oldest of too many is forgotten.
void ProcessTable::forget_old(const TrackedProcess& ended) {
  if (ended.record.pid == main_) {
    return;
  }
  const bool rank = ended.record.role == model::ProcessRole::rank;
  const bool helper = !rank && model::takes_part(ended.record.role);
  std::deque<Key>& all = rank ? ended_ranks_ : helper ? ended_helpers_ : ended_others_;
  all.push_back(key_of(ended));
  if (all.size() <= (rank ? kMostEndedRanks : kMostEndedOthers)) {
    return;
  }
  const Key oldest = all.front();
  all.pop_front();
  const auto it = processes_.find(oldest.first);
  if (it != processes_.end() && !it->second.alive && key_of(it->second) == oldest) {
    processes_.erase(it);
  } else {
    dead_.erase(oldest);
  }
}

void ProcessTable::note_error_stream(Pid pid) {
  TrackedProcess* p = find(pid);
  if (p == nullptr) {
    return;
  }
  model::ErrorStream& stream = p->record.error_stream;
  if (p->alive) {
    if (model::ErrorStream now = error_stream_of(proc_, pid); !now.empty()) {
      stream = std::move(now);
      stream.end = stream.kind == model::StreamKind::file ? error_position_of(proc_, pid) : -1;
    }
    return;
  }
  int64_t end = -1;
  size_t asked = 0;
  for (auto it = processes_.begin(); it != processes_.end() && asked < kMostWriters; ++it) {
    const TrackedProcess& q = it->second;
    if (q.alive && stream.kind == model::StreamKind::file && q.record.error_stream.path == stream.path) {
      end = std::max(end, error_position_of(proc_, q.record.pid));
      ++asked;
    }
  }
  // No remaining process can write after it, so the rest of the file belongs to the process. A position that
  // the process itself has reported is more accurate.
  stream.end = end < 0 || stream.end < 0 ? end : stream.end;
}

bool ProcessTable::add_departed(Pid pid, const Identity& identity) {
  const auto now = proc_.stat(pid);
  if (find(pid) != nullptr || (now && now->state != 'Z' && now->state != 'X')) {
    return false;
  }
  // A short-lived program that a rank runs has the rank's variables too.
  const auto is_it = [&](const auto& entry) {
    const TrackedProcess& p = entry.second;
    return p.alive && p.record.role == model::ProcessRole::rank && p.record.rank == identity.rank;
  };
  if (std::any_of(processes_.begin(), processes_.end(), is_it)) {
    return false;
  }
  TrackedProcess p;
  p.seen = base::mono_ns();
  p.identity = identity;
  p.record = {.pid = pid,
              .role = model::ProcessRole::rank,
              .rank = identity.rank,
              .local_rank = identity.local_rank,
              .identity = source_of(identity.kind),
              .python = true,
              .preload = true,
              .seen_s = base::ns_to_s(p.seen - started_)};
  // The process that was taken for the only rank is its launcher.
  for (auto& [known, other] : processes_) {
    if (!kind_ && other.record.identity == model::RankSource::single) {
      other.record.role = model::ProcessRole::agent;
      other.record.rank = base::kNoRank;
      other.record.local_rank = -1;
      other.record.identity = model::RankSource::none;
    }
  }
  if (!kind_ || identity.kind < *kind_) {
    kind_ = identity.kind;
  }
  processes_.emplace(pid, std::move(p));
  ranks_.insert(pid);
  return true;
}

void ProcessTable::note_python(Pid pid) {
  const auto it = processes_.find(pid);
  if (it != processes_.end()) {
    it->second.record.python = true;
    // Only the library reports this. /proc may have been read before the library was loaded.
    it->second.record.preload = true;
  }
}

TrackedProcess* ProcessTable::find(Pid pid) {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? nullptr : &it->second;
}

const TrackedProcess* ProcessTable::find(Pid pid) const {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? nullptr : &it->second;
}

std::vector<const TrackedProcess*> ProcessTable::living() const {
  std::vector<const TrackedProcess*> out;
  for (const auto& [pid, p] : processes_) {
    if (p.alive) {
      out.push_back(&p);
    }
  }
  return out;
}

std::vector<Descendant> ProcessTable::descendants_of(Pid pid) const {
  const TrackedProcess* above = find(pid);
  std::vector<Descendant> out;
  for (const auto& [below, p] : processes_) {
    if (!p.alive || above == nullptr || !descends_from(p, pid)) {
      continue;
    }
    // A forked process keeps the program's arguments; the other two start methods have arguments of their
    // own.
    const auto& words = p.record.cmdline;
    const bool forked = words == above->record.cmdline ||
                        std::find(words.begin(), words.end(), "--multiprocessing-fork") != words.end() ||
                        multiprocessing_part(words) == MultiprocessingPart::fork_server;
    out.push_back({.pid = below,
                   .parent = p.record.ppid,
                   .python = p.record.python,
                   .forked = p.record.python && forked,
                   .name = p.record.comm});
  }
  return out;
}

std::vector<const TrackedProcess*> ProcessTable::living_ranks() const {
  std::vector<const TrackedProcess*> out;
  for (const Pid pid : ranks_) {
    const TrackedProcess* p = find(pid);
    if (p != nullptr && p->alive && p->record.role == model::ProcessRole::rank) {
      out.push_back(p);
    }
  }
  std::sort(out.begin(), out.end(),
            [](const auto* a, const auto* b) { return a->record.rank < b->record.rank; });
  return out;
}

std::vector<const TrackedProcess*> ProcessTable::dead_ranks() const {
  std::vector<const TrackedProcess*> out;
  for (const auto& [pid, p] : processes_) {
    if (!p.alive && p.record.role == model::ProcessRole::rank) {
      out.push_back(&p);
    }
  }
  return out;
}

bool ProcessTable::replaced(Pid pid) const {
  const TrackedProcess* old = find(pid);
  return old != nullptr && !old->alive &&
         std::any_of(processes_.begin(), processes_.end(), [&](const auto& e) {
           const TrackedProcess& p = e.second;
           return p.record.role == model::ProcessRole::rank && p.record.rank == old->record.rank &&
                  p.seen > old->seen;
         });
}

std::vector<model::ProcessRecord> ProcessTable::records() const {
  std::vector<model::ProcessRecord> out;
  const auto add = [&](const TrackedProcess& p) {
    const bool matters =
        p.record.role != model::ProcessRole::other && p.record.role != model::ProcessRole::child;
    const bool twin = p.record.role == model::ProcessRole::other && p.record.rank != base::kNoRank;
    if (matters || twin || p.record.pid == main_) {
      out.push_back(p.record);
    }
  };
  for (const auto& [key, p] : dead_) {
    add(p);
  }
  for (const auto& [pid, p] : processes_) {
    add(p);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    // Ranks first, in order; then the others in order of discovery.
    const auto key = [](const model::ProcessRecord& r) {
      return std::tuple(r.role != model::ProcessRole::rank, r.role == model::ProcessRole::rank ? r.rank : 0,
                        r.seen_s, r.pid);
    };
    return key(a) < key(b);
  });
  return out;
}

int ProcessTable::world_size() const {
  int size = 0;
  for (const auto& [pid, p] : processes_) {
    if (p.record.role == model::ProcessRole::rank) {
      size = std::max({size, kind_ && p.identity ? p.identity->world_size : 0, p.record.rank + 1});
    }
  }
  return std::max(size, 1);
}

}  // namespace xpurun::launcher
