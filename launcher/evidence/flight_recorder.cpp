#include "launcher/evidence/flight_recorder.h"

#include "common/base/os/fd.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/rank_set.h"
#include "report/flight_recorder/flight_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

using model::EvidenceStatus;

namespace {

constexpr size_t kLargestDump = size_t{256} << 20;
constexpr size_t kLargestEnvironment = size_t{4} << 20;
// Entries of the recorder, as torch recommends. A pipeline's step has hundreds of calls.
constexpr std::string_view kEntries = "2000";

std::optional<std::string> value_of(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string& variable : env) {
    if (variable.size() > name.size() && variable.starts_with(name) && variable[name.size()] == '=') {
      return variable.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

// torch uses the first of these variables that is set.
std::optional<std::string> first_of(const std::vector<std::string>& env,
                                    std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (auto value = value_of(env, name)) {
      return value;
    }
  }
  return std::nullopt;
}

// torch raises an error if it cannot create its pipe, and some file systems have no FIFOs.
bool can_hold_a_pipe(const std::string& dir) {
  const std::string path = fmt::format("{}/.pipe-{}", dir, ::getpid());
  const bool good = ::mkfifo(path.c_str(), 0600) == 0;
  ::unlink(path.c_str());
  return good;
}

// Distinguishes a new dump from an old one.
struct Stamp {
  ino_t inode = 0;
  off_t size = -1;
  int64_t changed_ns = 0;

  bool operator==(const Stamp&) const = default;
};

Stamp stamp_of(const std::string& path) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) {
    return {};
  }
  return {.inode = st.st_ino,
          .size = st.st_size,
          .changed_ns = int64_t{st.st_mtim.tv_sec} * 1'000'000'000 + st.st_mtim.tv_nsec};
}

// Empty if the request was made. torch reads the pipe once a second.
std::string ask(const std::string& pipe) {
  // Without O_NONBLOCK, open() would wait for a reader; with it, open() fails with ENXIO if there is none.
  const base::UniqueFd fd(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) {
    return errno == ENXIO    ? "nobody reads its pipe"
           : errno == ENOENT ? "its pipe does not exist: no NCCL process group yet"
                             : fmt::format("its pipe cannot be opened: {}", std::strerror(errno));
  }
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0 || !S_ISFIFO(st.st_mode)) {
    return "its pipe is not a pipe";
  }
  return ::write(fd.get(), "1\n", 2) == 2
             ? std::string()
             : fmt::format("its pipe cannot be written: {}", std::strerror(errno));
}

struct Awaited {
  FlightRank rank;
  std::map<std::string, Stamp> files;  // their state before the request
};

// Copies the dump if it exists and is complete: torch writes it in place.
bool take(const Awaited& awaited, const std::string& out_dir, std::string& problem) {
  for (const auto& [path, before] : awaited.files) {
    const Stamp now = stamp_of(path);
    if (now.size <= 0 || now == before) {
      continue;
    }
    auto content = base::read_regular_file(path, kLargestDump);
    if (!content) {
      problem = base::to_line(content.error());
      continue;
    }
    const auto dump = report::read_flight_dump(*content);
    if (!dump) {
      problem = base::to_line(dump.error());
      continue;
    }
    const auto written =
        base::write_file_atomic(fmt::format("{}/rank_{}", out_dir, awaited.rank.rank), *content);
    problem = written ? std::string() : base::to_line(written.error());
    return written.has_value();
  }
  return false;
}

}  // namespace

std::vector<std::string> with_flight_recorder(std::vector<std::string> env, const std::string& dir) {
  if (!base::make_dirs(dir)) {
    return env;
  }
  const auto add = [&env](std::string_view name, std::string_view newer, const std::string& value) {
    if (!first_of(env, {newer, name})) {
      env.push_back(fmt::format("{}={}", name, value));
    }
  };
  add("TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", std::string(kEntries));
  add("TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_FR_DUMP_ON_TIMEOUT", "1");
  add("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE", dir + "/rank_");
  if (can_hold_a_pipe(dir)) {
    add("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "TORCH_FR_DEBUG_INFO_PIPE_FILE", dir + "/rank_");
  }
  return env;
}

FlightPaths flight_paths(const std::vector<std::string>& env, base::Rank rank) {
  FlightPaths out;
  const auto pipe = first_of(env, {"TORCH_FR_DEBUG_INFO_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"});
  if (!pipe || pipe->empty()) {
    return out;
  }
  out.pipe = fmt::format("{}{}.pipe", *pipe, rank);
  if (const auto prefix = first_of(env, {"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"})) {
    out.files = {fmt::format("{}{}", *prefix, rank)};
    return out;
  }
  // torch's defaults, from 2.7 on and before.
  const std::string home = value_of(env, "HOME").value_or("/tmp") + "/.cache";
  for (const std::string& cache : {value_of(env, "XDG_CACHE_HOME").value_or(home), home}) {
    out.files.push_back(fmt::format("{}/torch/comm_lib_trace_rank_{}", cache, rank));
    out.files.push_back(fmt::format("{}/torch/nccl_trace_rank_{}", cache, rank));
  }
  out.files.push_back(fmt::format("/tmp/nccl_trace_rank_{}", rank));
  return out;
}

FlightResult force_flight_dumps(const std::vector<FlightRank>& ranks, const std::string& out_dir,
                                const std::function<bool()>& wait, const std::string& proc) {
  std::vector<Awaited> awaited;
  std::map<std::string, model::RankSet> problems;
  size_t recording = 0;
  size_t arrived = 0;
  for (const FlightRank& rank : ranks) {
    // The environment at the rank's exec: a launcher between xpurun and the rank may have set other paths.
    const auto text = base::read_file(fmt::format("{}/{}/environ", proc, rank.pid), kLargestEnvironment);
    std::vector<std::string> env;
    for (const std::string_view variable : base::split(text ? std::string_view(*text) : "", '\0')) {
      env.emplace_back(variable);
    }
    const FlightPaths paths = flight_paths(env, rank.rank);
    if (paths.pipe.empty()) {
      continue;
    }
    // A relative path is relative to the rank's directory.
    const std::string cwd = fmt::format("{}/{}/cwd/", proc, rank.pid);
    const auto absolute = [&](const std::string& path) { return path.starts_with('/') ? path : cwd + path; };
    ++recording;
    Awaited one{.rank = rank, .files = {}};
    for (const std::string& file : paths.files) {
      one.files[absolute(file)] = stamp_of(absolute(file));
    }
    if (const std::string problem = ask(absolute(paths.pipe)); !problem.empty()) {
      problems[problem].insert(rank.rank);
    } else {
      awaited.push_back(std::move(one));
    }
  }
  if (recording == 0) {
    return {.status = EvidenceStatus::absent, .reason = "no rank has a Flight Recorder that listens"};
  }
  if (const auto made = base::make_dirs(out_dir); !made) {
    return {.status = EvidenceStatus::failed, .reason = base::to_line(made.error())};
  }
  std::map<base::Rank, std::string> unfinished;
  bool time_left = true;
  while (!awaited.empty() && time_left) {
    time_left = wait();
    std::erase_if(awaited, [&](const Awaited& one) {
      const bool taken = take(one, out_dir, unfinished[one.rank.rank]);
      const bool gone = !taken && !base::file_exists(fmt::format("{}/{}", proc, one.rank.pid));
      arrived += taken ? 1 : 0;
      if (gone) {
        problems["it has ended"].insert(one.rank.rank);
      }
      return taken || gone;
    });
  }
  for (const Awaited& one : awaited) {
    const std::string& why = unfinished[one.rank.rank];
    problems[why.empty() ? "no dump came in time" : why].insert(one.rank.rank);
  }
  std::vector<std::string> reasons;
  for (const auto& [why, who] : problems) {
    reasons.push_back(fmt::format("{} {}: {}", who.size() == 1 ? "rank" : "ranks", who.brief(), why));
  }
  const EvidenceStatus status = reasons.empty()   ? EvidenceStatus::ok
                                : arrived > 0     ? EvidenceStatus::partial
                                : awaited.empty() ? EvidenceStatus::failed
                                                  : EvidenceStatus::timeout;
  return {.status = status, .reason = base::join(reasons, "; ")};
}

}  // namespace xpurun::launcher
