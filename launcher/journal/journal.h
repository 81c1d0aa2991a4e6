// Journal: owner of run.json. Every change marks it dirty; the storage then soon replaces the file
// atomically, so that the directory is valid at any instant. A full disk is reported once and does not stop
// the job.
#pragma once

#include "common/base/clock.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/os/event_loop.h"
#include "launcher/storage/storage.h"

#include <vector>

namespace xpurun::launcher {

class Journal {
 public:
  static constexpr double kRefreshS = 10;

  Journal(EventLoop& loop, Storage& storage, model::RunDir dir, base::MonoNs started);

  const model::RunDir& dir() const { return dir_; }
  base::MonoNs started() const { return started_; }
  double elapsed_s() const { return base::ns_to_s(loop_.now() - started_); }

  // Reading is free; call changed() after writing.
  model::RunManifest& manifest() { return manifest_; }
  const model::RunManifest& manifest() const { return manifest_; }
  // Schedules a write. Several changes within the delay share one write.
  void changed();
  // After a poll: the records of all processes, whose positions may have changed. Schedules a write if the
  // last one is older than kRefreshS: run.json then shows where the ranks were a short time ago, even after
  // xpurun was killed.
  void processes_polled(std::vector<model::ProcessRecord> processes, int world_size);
  // Passes run.json to the storage without a delay. Does not wait for the disk.
  void save_now();

  // The recorded notice of the process, null if there is none.
  model::CrashNotice* find_crash(base::Pid pid);
  // Opens a stall, for which a judgement is asked.
  model::Stall& add_stall(model::RankSet ranks, double since_s);
  // Its ranks belong to another stall.
  void drop_stall(int n);
  // The stall of this number, null if there is none.
  model::Stall* stall(int n);
  // The open stall that matters most (model::current_stall()), null if none is open.
  model::Stall* open_stall();
  const model::Stall* open_stall() const;

 private:
  EventLoop& loop_;
  Storage& storage_;
  model::RunDir dir_;
  base::MonoNs started_;
  base::MonoNs saved_ = 0;
  model::RunManifest manifest_;
  bool scheduled_ = false;
  bool complained_ = false;
};

}  // namespace xpurun::launcher
