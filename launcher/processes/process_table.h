// ProcessTable: all descendants of the supervisor, or of the roots of a foreign job, and their roles. Found
// by walking /proc/PID/task/TID/children. The supervisor is a subreaper, so orphans stay in the walk. A walk
// takes time in proportion to the number of processes; a look at one process takes the same time in every
// job. The table keeps dead processes, because they are evidence, but only a limited number of them.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "common/model/run_manifest.h"
#include "launcher/os/pidfd.h"
#include "launcher/processes/descendant.h"
#include "launcher/processes/identity.h"
#include "launcher/processes/mpi_worlds.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

namespace xpurun::launcher {

struct TrackedProcess {
  model::ProcessRecord record;
  std::optional<Identity> identity;  // from its environment, else `member`; does not determine the role
  std::optional<Identity> member;    // of torch's default process group, as the process said
  Pidfd pidfd;  // only of processes that take part (model::takes_part) and of the command
  std::string exe;
  int mpi_world = -1;  // index in ProcessTable::mpi_worlds()
  bool alive = true;
  bool left_behind = false;  // by a rank that has ended: a helper of that rank, although it has the rank's
                             // variables
  bool serves = false;       // the server of a multiprocessing.Manager
  bool spawned = false;      // a rank because its parent, a Python process, only waits for it
  bool inspected = false;    // its program and variables were read
  bool leaf = false;         // without children at the last look
  bool told = false;         // given to the handler of on_found()
  uint64_t walk = 0;         // the last walk that found the process
  uint64_t read_in = 0;      // the last walk that read its program and variables
  base::MonoNs seen = 0;
};

class ProcessTable {
 public:
  // `started` is the origin of all times in records.
  ProcessTable(base::Pid supervisor, base::MonoNs started, base::ProcFs proc = base::ProcFs());

  // Called once for each process that takes part, and for the command. The pidfd is open if the kernel has
  // pidfds and a descriptor is free; called again if it could be opened only later.
  void on_found(std::function<void(const TrackedProcess&)> handler) { on_found_ = std::move(handler); }
  // Called by refresh() for a process that takes part, has no pidfd and has ended. Without a handler, and for
  // other processes, refresh() itself marks the process dead.
  void on_lost(std::function<void(base::Pid)> handler) { on_lost_ = std::move(handler); }

  // xpurun's own helpers do not belong to the job.
  void ignore(base::Pid pid) { ignored_.insert(pid); }
  void unignore(base::Pid pid) { ignored_.erase(pid); }

  // Watches these processes and their descendants instead of those of xpurun. Call before the first
  // refresh().
  void set_roots(std::vector<base::Pid> pids) { roots_ = std::move(pids); }
  // Whether xpurun has not started the job. It then does not get the status of the job's processes.
  bool is_foreign() const { return !roots_.empty(); }
  // Whether all roots and all ranks of a foreign job have ended.
  bool foreign_job_ended() const;

  // The command itself, a child of xpurun; the first root of a foreign job.
  void set_main(base::Pid pid) { main_ = pid; }
  base::Pid main() const { return main_; }
  // Without a pidfd, signals by pid, which is safe until xpurun reaps the process.
  void signal_main(int signal) const;
  // Signals exactly this process, never another that has got its pid. False if the process has ended.
  bool signal(const TrackedProcess& p, int signal) const;

  // Walks the tree, records new processes, notices exec, and assigns all roles again.
  void refresh();
  // The same for one process and those between it and a known process. `executed`: it runs a new program,
  // perhaps with other variables. Does nothing if the process does not belong to the job. True if all roles
  // were assigned again, so that other processes may have become ranks.
  bool look_at(base::Pid pid, bool executed = false);
  // Marks one process dead; its record stays.
  void mark_dead(base::Pid pid);
  // Python processes that only wait for processes that they started. Without a launcher's variables, these
  // are launchers, and the processes that they wait for are the ranks, numbered in start order. Takes effect
  // with the next refresh().
  void set_spawners(std::set<base::Pid> pids) { spawners_ = std::move(pids); }
  const std::set<base::Pid>& spawners() const { return spawners_; }
  // Candidates: Python processes taken for ranks or launchers that have started other processes. Empty if a
  // launcher's variables identify the ranks.
  std::vector<base::Pid> possible_spawners() const;

  // Updates the file and position of the process's standard error. For an ended process, uses a living
  // process that writes to the same file.
  void note_error_stream(base::Pid pid);
  // Adds a rank that ended before a walk found it; its Python process has reported its identity. Counts as
  // living until mark_dead(). False, without any change, if the process still exists or is known, or if the
  // rank lives.
  bool add_departed(base::Pid pid, const Identity& identity);
  // The same of a process without such variables that its parent, a known process, has not reaped yet. It is
  // a rank as soon as the parent proves to wait for ranks.
  bool add_unreaped(base::Pid pid);

  // The preload library has reported this process as Python, possibly before the walk found the process.
  void note_python(base::Pid pid);

  // By its stack, the process is the server of a multiprocessing.Manager, and so no rank.
  void note_manager(base::Pid pid);

  // The process is this rank of torch's default process group, which counts if no environment names ranks:
  // a launcher inside of the program (Lightning's) makes the first process rank 0 without new variables.
  void note_member(base::Pid pid, base::Rank rank, int world_size);

  // Empty if the process has ended or its environment is unreadable.
  std::map<std::string, std::string> environment_of(base::Pid pid) const { return proc_.environ(pid); }

  // The latest process with this pid, living or dead; null if unknown.
  TrackedProcess* find(base::Pid pid);
  const TrackedProcess* find(base::Pid pid) const;
  // Living processes with role "rank", by rank.
  std::vector<const TrackedProcess*> living_ranks() const;
  std::vector<const TrackedProcess*> living() const;
  // The living descendants of this process.
  std::vector<Descendant> descendants_of(base::Pid pid) const;
  // Dead processes with role "rank" whose pids were not reused.
  std::vector<const TrackedProcess*> dead_ranks() const;
  // Whether the process has ended and a later process has its rank, because the launcher restarted the rank.
  bool replaced(base::Pid pid) const;
  // All processes to record: ranks, workers, agents, the command, living and dead.
  std::vector<model::ProcessRecord> records() const;
  // At least 1: the largest value that a launcher's variables or a rank number imply.
  int world_size() const;
  const std::vector<MpiWorld>& mpi_worlds() const { return mpi_worlds_.all(); }
  // Whether several ranks were identified, rather than a single process taken as the only rank.
  bool multi_process() const { return kind_.has_value() || world_size() > 1; }

 private:
  // Where a walk begins: at the supervisor, or at the processes of a foreign job.
  std::vector<base::Pid> walk_starts() const;
  void walk();
  bool may_be_skipped(const TrackedProcess& p, base::MonoNs now) const;
  // Records a process that a walk or a look has met. Null if it has ended or is xpurun's own.
  TrackedProcess* meet(const base::ProcStat& stat, base::MonoNs now);
  void inspect_all();
  void inspect_if_due(TrackedProcess& p, base::MonoNs now);
  void inspect(TrackedProcess& p);
  // The process and its unknown ancestors, outermost first; empty if it is not of the job.
  std::vector<base::ProcStat> unknown_line(base::Pid pid) const;
  bool still_exists(const TrackedProcess& p) const;
  void find_lost();
  void lose(TrackedProcess& p);
  void watch_if_needed(TrackedProcess& p);
  void watch_all();
  void forget_old(const TrackedProcess& ended);

  void assign_roles();
  // Assigns the role of a process without descendants. False if that cannot be done without the others.
  bool assign_alone(TrackedProcess& p);
  void assign_by_variables();
  void assign_by_parents();
  void choose_ranks();
  void find_left_behind();
  bool is_twin(const TrackedProcess& p) const;
  // The nearest ancestor among `pids`; null if there is none.
  const TrackedProcess* nearest_above(const TrackedProcess& p,
                                      const std::unordered_set<base::Pid>& pids) const;
  // Those processes' ancestors in the table.
  std::unordered_set<base::Pid> all_above(const std::unordered_set<base::Pid>& pids) const;
  const TrackedProcess* topmost_python() const;
  bool has_python_below(base::Pid ancestor) const;
  // Whether this is an internal process of Python's multiprocessing (resource tracker, fork
  // server, manager).
  bool is_helper(const TrackedProcess& p) const;
  // The nearest Python descendants of a process, without multiprocessing's internal processes.
  std::vector<TrackedProcess*> started_by(base::Pid pid);
  void find_spawned(TrackedProcess& p, std::vector<TrackedProcess*>& ranks);
  static bool runs_programs(const TrackedProcess& p);
  TrackedProcess* topmost_runner();
  void number_spawned();
  void follow_members();
  bool descends_from(const TrackedProcess& p, base::Pid ancestor) const;

  base::ProcFs proc_;
  base::Pid supervisor_;
  base::MonoNs started_;
  base::Pid main_ = 0;
  std::vector<base::Pid> roots_;
  std::set<base::Pid> ignored_;
  // A process by its pid and its start time, which no other process has.
  using Key = std::pair<base::Pid, uint64_t>;
  static Key key_of(const TrackedProcess& p) { return {p.record.pid, p.record.start_ticks}; }

  std::map<base::Pid, TrackedProcess> processes_;  // by pid; a reused pid moves the old one to dead_
  std::map<Key, TrackedProcess> dead_;
  std::deque<Key> ended_ranks_;  // in the order of their ends, to forget the oldest
  std::deque<Key> ended_helpers_;
  std::deque<Key> ended_others_;
  uint64_t walk_ = 0;                       // number of the current walk
  std::optional<IdentityKind> kind_;        // the kind of identity used in this job
  std::map<base::Rank, base::Pid> chosen_;  // the ranks by variables, as of the last assign_roles()
  std::unordered_set<base::Pid> ranks_;     // all processes that may have the role of a rank
  std::set<base::Pid> spawners_;
  MpiWorlds mpi_worlds_;
  bool members_count_ = false;  // ranks are named by TrackedProcess::member
  std::function<void(const TrackedProcess&)> on_found_;
  std::function<void(base::Pid)> on_lost_;
};

}  // namespace xpurun::launcher
