// A profile: how often each Python stack was seen in each thread of a job while it ran. Plain data, and the
// sums that all output forms need. Pure.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "report/speed/primitives/intervals.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct ProfileFrame {
  std::string function;
  std::string file;
  int line = 0;  // 1-based; 0: unknown
};

// One thread of one process.
struct ProfileTrack {
  base::Rank rank = base::kNoRank;  // of a worker: the rank that started it
  base::Pid pid = 0;
  bool worker = false;  // a process that a rank started
  std::string thread;   // "MainThread"
  // No main thread, and only samples of moments at which it held the GIL.
  bool gil_only = false;
  // Outermost frame first, as indexes into Profile::frames.
  using Stack = std::vector<uint32_t>;
  std::map<Stack, uint64_t> stacks;  // samples of each
  // Of these samples of the first hour, in us since the begin of the recording, ascending.
  std::map<Stack, std::vector<uint32_t>> times;
  // Set by mark_idle(): the samples during which the activity of the rank's GPU was recorded, and those of
  // them in which no work was running.
  uint64_t with_gpu = 0;
  std::map<Stack, uint64_t> idle;

  uint64_t samples() const;
  std::string title() const;  // "rank 2 / MainThread", "rank 2 worker 4712 / MainThread", "pid 4711 / loader"
};

struct Profile {
  std::string about;             // "pid 4711"
  std::string unit = "samples";  // what the stacks are counted in
  std::string host;              // empty: unknown
  std::string reason;            // "slow", "request"; empty: recorded by hand
  int64_t wall_ns = 0;           // begin; 0: unknown
  base::MonoNs mono_ns =
      0;                  // begin, CLOCK_MONOTONIC of the host; 0: unknown, so are the times of the samples
  double interval_s = 0;  // between two samples of a process
  double seconds = 0;     // of the whole recording
  std::vector<ProfileFrame> frames;
  std::vector<ProfileTrack> tracks;
  uint64_t torn = 0;  // samples left out because the stack changed while it was read
  std::vector<std::string> notes;

  uint64_t samples() const;
  model::RankSet ranks() const;
};

// The recorded activity of one GPU; CLOCK_MONOTONIC.
struct GpuActivity {
  base::MonoNs begin_ns = 0;
  base::MonoNs end_ns = 0;
  std::vector<Interval> busy;  // united: some work was running
};
// Sets ProfileTrack::with_gpu and idle of the ranks' own processes.
void mark_idle(Profile& profile, const std::map<base::Rank, GpuActivity>& gpus);

// A function, regardless of the line, or one line of it.
struct FunctionShare {
  std::string function;
  std::string file;
  int line = 0;        // 0: all lines
  uint64_t self = 0;   // samples whose innermost frame is the function
  uint64_t total = 0;  // samples with the function anywhere
};

// Of all tracks, or of those with these ranks; most self samples first.
std::vector<FunctionShare> functions_of(const Profile& profile);
std::vector<FunctionShare> functions_of(const Profile& profile, const model::RankSet& ranks);
// The same by line.
std::vector<FunctionShare> lines_of(const Profile& profile, const model::RankSet& ranks);

// Tables for people: functions by self time; with `compared`, the functions whose share of these ranks' time
// differs most from their share of the others', and the lines of functions whose lines differ more.
std::string profile_text(const Profile& profile, const model::RankSet& compared, size_t columns);
// "rank 2 / MainThread;train (train.py);step (train.py) 42"
std::string profile_folded(const Profile& profile);
// One profile of speedscope.app per track, with lines. With `compared`, two come first: these ranks, and the
// others.
std::string profile_speedscope(const Profile& profile, const model::RankSet& compared = {});
// A flame graph of all tracks: width is samples, colour says which ranks. With `compared`, two: of these
// ranks and of the others; colour says in which of them a frame has the larger share of the time.
std::string profile_svg(const Profile& profile, const model::RankSet& compared = {});

// model::kProfileSchema.
std::string profile_json(const Profile& profile);
// Of unknown origin. An error means that the text is not such JSON or contradicts itself.
base::Result<Profile> profile_from_json(std::string_view text);
// Recordings of several hosts as one; the first one's head counts. At least one.
Profile merged_profile(std::vector<Profile> parts);

}  // namespace xpurun::report
