// RankProbe: the progress of one rank, as Watcher sees it. RankWatch is the implementation.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/model/dump_manifest.h"
#include "launcher/processes/descendant.h"
#include "launcher/processes/native_look.h"
#include "launcher/watch/wait_target.h"
#include "stackdump/resolve/position.h"

#include <functional>
#include <map>
#include <vector>

namespace xpurun::launcher {

// What else is known about a still rank: see StillRank.
struct StillSigns {
  WaitTarget waits_for = WaitTarget::nobody;
  unsigned condition = 0;
  // Few samples prove no stillness: the thread wakes up often, in a loop whose time is in one line, or it
  // computes, and few looks have met its stack.
  bool loops = false;
};

class RankProbe {
 public:
  RankProbe() = default;
  virtual ~RankProbe() = default;
  RankProbe(const RankProbe&) = delete;
  RankProbe& operator=(const RankProbe&) = delete;

  // Takes one sample. If the process has ended, nothing changes. `helpers` returns the processes below the
  // rank and is called only if they are sampled.
  virtual void sample(base::MonoNs now, const std::function<std::vector<Descendant>()>& helpers) = 0;
  // The supervisor was not running (stopped, suspended host), so no progress could be observed during `gap`.
  virtual void forgive(base::MonoNs gap) = 0;

  // Whether to find out where the rank works, because another rank may wait for it.
  virtual void watch_place(bool) {}
  // Whether the job has other ranks.
  virtual void among_others(bool) {}
  // Since when only a look at the stack can tell whether the rank moves; 0: other signs do.
  virtual base::MonoNs wants_look(base::MonoNs /*now*/) const { return 0; }
  virtual void looked(base::MonoNs /*now*/, const NativeLook&) {}
  // The next look needs only the stack, not whether the rank circles.
  virtual bool shows_by_stack() const { return false; }
  // Only looks can prove that the rank has stood still for `still_s`, and too few have been taken.
  virtual bool wants_more_looks(base::MonoNs /*now*/, double /*still_s*/) const { return false; }
  // Somebody waits for the answer: looks follow each other at once.
  virtual void hurry() {}
  // An exception has ended a process of the rank.
  virtual void helper_failed() {}
  // A dump has stopped the rank.
  virtual void held() {}

  virtual base::Rank rank() const = 0;
  virtual base::MonoNs last_progress() const = 0;
  // Time since the last progress in which the main thread was ready to run, but had no CPU.
  virtual base::MonoNs starved() const = 0;
  virtual StillSigns signs() const { return {}; }
  virtual const stackdump::Position& position() const = 0;
  // The line of the user's code at that position, as a verdict names it.
  virtual const model::CodeLocation& user_place() const = 0;
  // The lines of the user's code that its processes were last seen in.
  virtual std::map<base::Pid, model::CodeLocation> helper_places() const { return {}; }
  // Runs the server of a multiprocessing.Manager.
  virtual bool is_manager() const { return false; }
  // Memory in RAM at the last sample; 0: not known.
  virtual int64_t rss_bytes() const { return 0; }
  virtual model::RankObservation observe(base::MonoNs now) const = 0;

  double still_s(base::MonoNs now) const { return base::ns_to_s(now - last_progress()); }
};

}  // namespace xpurun::launcher
