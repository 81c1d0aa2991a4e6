#include "common/model/run_dir.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/os/random.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::model {

namespace fs = std::filesystem;

namespace {

std::string safe_name(std::string_view name) {
  std::string out;
  for (char c : base::base_name(name)) {
    const bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                    c == '.' || c == '-';
    out += ok ? c : '_';
    if (out.size() == 32) {
      break;
    }
  }
  while (!out.empty() && (out.front() == '.' || out.front() == '-')) {
    out.erase(0, 1);
  }
  return out.empty() ? "run" : out;
}

uint32_t random_bits() {
  return static_cast<uint32_t>(base::random_number().value_or(static_cast<uint64_t>(base::mono_ns())));
}

// Losing this race to another run that starts at the same time is harmless: both runs are recent.
void point_latest(const std::string& parent, const std::string& name) {
  // rename() replaces the old link in one step, so that `latest` exists at every moment.
  const std::string tmp = fmt::format("{}/.latest-{}-{:08x}", parent, ::getpid(), random_bits());
  if (::symlink(name.c_str(), tmp.c_str()) == 0 && ::rename(tmp.c_str(), (parent + "/latest").c_str()) != 0) {
    ::unlink(tmp.c_str());
  }
}

base::Error no_run_dir_hint(base::Error e) {
  e.id = "E-OUT-DIR";
  e.hint = "xpurun --out DIR -- CMD..., with a directory that you may write";
  return e;
}

}  // namespace

base::Result<RunDir> RunDir::create(const std::string& parent, std::string_view name) {
  if (auto made = base::make_dirs(parent); !made) {
    return base::fail(no_run_dir_hint(std::move(made.error())));
  }
  for (int attempt = 0; attempt < 16; ++attempt) {
    const std::string id = fmt::format("{}-{}-{:04x}", base::utc_compact(base::wall_ns()), safe_name(name),
                                       random_bits() & 0xFFFF);
    const std::string path = fmt::format("{}/{}", parent, id);
    if (::mkdir(path.c_str(), 0700) == 0) {
      point_latest(parent, id);
      return RunDir(path);
    }
    if (errno != EEXIST) {
      break;
    }
  }
  return base::fail(
      no_run_dir_hint(base::fail_errno(fmt::format("cannot create a run directory in {}", parent)).value()));
}

base::Result<RunDir> RunDir::create_at(const std::string& path) {
  if (auto made = base::make_dirs(path); !made) {
    return base::fail(no_run_dir_hint(std::move(made.error())));
  }
  std::error_code ec;
  const bool empty = fs::is_empty(path, ec);
  if (ec) {
    return base::fail(no_run_dir_hint({.what = fmt::format("cannot read {}", path), .cause = ec.message()}));
  }
  if (!empty) {
    return base::fail(base::Error{.what = fmt::format("{} is not empty", path),
                                  .id = "E-OUT-DIR",
                                  .cause = "a run directory is never overwritten",
                                  .hint = "choose another --out, or remove that directory"});
  }
  // Files get the group of a directory with the setgid bit.
  struct stat st {};
  const mode_t setgid = ::stat(path.c_str(), &st) == 0 ? st.st_mode & S_ISGID : 0;
  ::chmod(path.c_str(), 0700 | setgid);
  return RunDir(path);
}

base::Result<RunDir> RunDir::find(const std::string& path) {
  const std::string given = path == "latest" ? "xpurun-runs/latest" : path;
  const bool is_name = given.find('/') == std::string::npos;
  for (const std::string& candidate :
       {given, given + "/latest", is_name ? "xpurun-runs/" + given : std::string()}) {
    if (base::file_exists(candidate + "/run.json")) {
      std::error_code ec;
      const fs::path real = fs::canonical(candidate, ec);
      return RunDir(ec ? candidate : real.string());
    }
  }
  return base::fail(base::Error{.what = base::cli_text("no run directory at {}", given),
                                .id = "E-NO-RUN",
                                .cause = base::cli_text("a run directory contains a file run.json"),
                                .hint = "ls -d xpurun-runs/*"});
}

std::string RunDir::id() const {
  return std::string(base::base_name(path_));
}

std::string RunDir::file(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

std::string RunDir::dump_name(int n, DumpReason why) {
  return fmt::format("dumps/{}-{}", n, name_of(why));
}

std::vector<std::string> RunDir::dumps() const {
  std::vector<std::pair<int64_t, std::string>> found;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(file("dumps"), ec)) {
    const std::string name = entry.path().filename();
    if (const auto n = base::parse_int(std::string_view(name).substr(0, name.find('-')))) {
      found.emplace_back(*n, entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> out;
  out.reserve(found.size());
  for (auto& [n, p] : found) {
    out.push_back(std::move(p));
  }
  return out;
}

std::string process_key(base::Rank rank, ProcessRole role, std::string_view host, base::Pid pid) {
  if (role == ProcessRole::rank && rank != base::kNoRank) {
    return fmt::format("rank-{}", rank);
  }
  return fmt::format("{}-{}", safe_name(host), pid);
}

}  // namespace xpurun::model
