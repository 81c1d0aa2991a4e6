// RankWatch: the progress of one rank's main thread, read from outside without stopping the rank. Progress is
// RankWatch: the progress of one rank's main thread, read from outside without stopping the rank. Progress is
// a changed Python position of the main thread (but see tight_loop.h), data read or written in one place,
// much file I/O, or much memory touched for the first time (libraries being loaded). For a process without
// Python: a changed system call, and CPU time unless looks at its stack show it in one place (native_site.h).
// Inside a call of MPI, and in a loop that polls MPI, only further calls are progress: MPI spins while it
// waits. One instance per rank process.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/procfs.h"
#include "common/model/dump_manifest.h"
#include "common/model/verdict.h"
#include "launcher/processes/native_calls.h"
#include "launcher/processes/native_site.h"
#include "launcher/watch/common_place.h"
#include "launcher/watch/helper_watch.h"
#include "launcher/watch/rank_probe.h"
#include "launcher/watch/ready_time.h"
#include "launcher/watch/tight_loop.h"
#include "stackdump/resolve/position.h"

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace xpurun::launcher {

class RankWatch final : public RankProbe {
 public:
  // What the main thread does in MPI; empty if it uses no MPI.
  using ReadCalls = std::function<std::optional<NativeCalls>(base::Pid)>;
  // The rank's helpers are sampled too, once the main thread has been still for a part of the hang timeout.
  // hang_timeout_s 0: never.
  RankWatch(base::Rank rank, base::Pid pid, base::MonoNs now, double hang_timeout_s, ReadCalls read_calls);

  void sample(base::MonoNs now, const std::function<std::vector<Descendant>()>& helpers) override;
  void forgive(base::MonoNs gap) override {
    last_progress_ += gap;
    main_moved_ += gap;
  }

  void watch_place(bool on) override {
    whole_stack_ = on;
    on ? (void)0 : common_.forget();
  }
  void among_others(bool yes) override { has_peers_ = yes; }
  base::MonoNs wants_look(base::MonoNs now) const override;
  void looked(base::MonoNs now, const NativeLook& look) override;
  bool shows_by_stack() const override { return polls_for_peers_ || (hurried_ && looked_ == 0); }
  bool wants_more_looks(base::MonoNs now, double still_s) const override;
  void hurry() override { hurried_ = true; }
  void helper_failed() override { ++failed_; }
  void held() override {
    loop_.held();
    helpers_.held();
  }

  base::Rank rank() const override { return rank_; }
  base::MonoNs last_progress() const override { return last_progress_; }
  base::MonoNs starved() const override { return starved_; }
  StillSigns signs() const override;
  const stackdump::Position& position() const override { return position_; }
  const model::CodeLocation& user_place() const override { return user_place_; }
  std::map<base::Pid, model::CodeLocation> helper_places() const override { return helpers_.places(); }
  bool is_manager() const override;
  int64_t rss_bytes() const override { return rss_bytes_; }
  model::RankObservation observe(base::MonoNs now) const override;

 private:
  struct Usage {
    base::MonoNs at = 0;
    double cpu_s = 0;       // whole process
    double main_cpu_s = 0;  // main thread
    base::ProcRunTime main_run_time = {};
    uint64_t io_bytes = 0;  // without printed_bytes_
    uint64_t io_calls = 0;
    uint64_t page_faults = 0;  // main thread
  };

  void sample_usage(base::MonoNs now);
  void note_motion(base::MonoNs now);
  // For which the main thread was ready to run, but had no CPU.
  static double queue_s(const Usage& from, const Usage& to);
  // True if the main thread's position shows progress since the last sample.
  bool sample_position(base::MonoNs now);
  bool sample_without_python();
  bool is_looked_at() const;
  bool has_slept() const;
  bool sample_computation(base::MonoNs now, bool other_progress);
  // Between two looks at a native thread that computes.
  base::MonoNs look_interval() const;
  bool few_looks() const;
  // A pool starts a new process for each that ends, without end if all raise.
  bool helps_in_vain() const;
  // As of the helpers, but not where each of them fails.
  model::HelperLife helper_life() const;
  // Of the hang timeout: the main thread's stillness.
  double still_part(base::MonoNs now) const;
  // Whether the recorded calls show progress; empty if they show nothing.
  std::optional<bool> sample_calls();
  void disregard_output();

  base::ProcFs proc_;
  base::Rank rank_;
  base::Pid pid_;
  std::optional<stackdump::PositionReader> reader_;
  base::MonoNs next_open_ = 0;
  double open_backoff_s_ = 0.2;
  stackdump::Position position_{};
  TightLoop loop_;
  model::CodeLocation user_place_;  // of position_
  bool whole_stack_ = false;
  CommonPlace common_;  // of the samples with whole stacks
  // Without Python.
  std::string syscall_;              // in which it slept last
  bool on_cpu_ = false;              // at this sample
  base::MonoNs computes_since_ = 0;  // was on a CPU, and nothing else shows what it does; 0: neither
  NativeSite site_;
  base::MonoNs looked_ = 0;       // the latest look, also one that has failed
  bool polls_for_peers_ = false;  // at the latest look
  bool hurried_ = false;
  base::MonoNs last_progress_;
  base::MonoNs starved_ = 0;
  base::MonoNs main_moved_;  // last progress of the main thread itself, without its helpers
  base::MonoNs hang_timeout_;
  bool helpers_met_ = false;  // in this stillness, the rank was found waiting for helpers
  HelperWatch helpers_;
  int failed_ = 0;              // helpers, in this stillness
  int failed_seen_ = 0;         // at the last sample
  base::MonoNs failed_at_ = 0;  // the last sample that met more of them; 0: none has
  ReadyTime ready_time_;        // of the main thread
  std::deque<Usage> usage_;     // the last kWindow samples
  ReadCalls read_calls_;
  std::optional<NativeCalls> calls_;  // at the last sample
  bool in_calls_ = false;             // the main thread stands in recorded calls
  uint64_t printed_bytes_ = 0;        // in such calls
  char state_ = '?';
  int64_t rss_bytes_ = 0;
  bool waits_for_terminal_ = false;
  bool has_peers_ = false;
};

}  // namespace xpurun::launcher
