#include "launcher/spawn/preload_plan.h"

#include "common/base/hash.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/wire/python.h"
#include "launcher/spawn/preload_reach.h"

#include <fmt/format.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr const char* kNotInLdPreload = " :$";

bool fits_ld_preload(const std::string& path) {
  return path.find_first_of(kNotInLdPreload) == std::string::npos;
}

std::string value_of(const std::vector<std::string>& env, std::string_view name) {
  for (const std::string& entry : env) {
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return entry.substr(name.size() + 1);
    }
  }
  return {};
}

bool preloads_asan(const std::string& ld_preload) {
  for (const std::string_view entry : base::split(ld_preload, ':')) {
    for (const std::string_view library : base::split(entry, ' ')) {
      if (is_sanitizer_runtime(library) && base::base_name(library).find("asan") != std::string_view::npos) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

std::string directory_for_links() {
  const char* runtime = ::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && runtime[0] == '/' && fits_ld_preload(runtime) ? runtime : "/tmp";
}

base::Result<std::string> preloadable_path(const std::string& library, const std::string& directory) {
  if (fits_ld_preload(library)) {
    return library;
  }
  const auto cannot = [&](std::string cause) {
    return base::fail(
        base::Error{.what = fmt::format("cannot preload {}", library),
                    .cause = std::move(cause),
                    .hint = "install xpurun below a path without spaces, colons and dollar signs"});
  };
  const std::string place =
      fmt::format("{}/xpurun-preload-{}-{:016x}", directory, ::geteuid(), base::hash_text(library));
  if (!fits_ld_preload(place)) {
    return cannot(fmt::format("LD_PRELOAD cannot hold {} either", place));
  }
  // The name can be guessed, so another user may have made the directory first.
  struct stat st {};
  if ((::mkdir(place.c_str(), 0700) != 0 && errno != EEXIST) || ::lstat(place.c_str(), &st) != 0 ||
      !S_ISDIR(st.st_mode) || st.st_uid != ::geteuid() || (st.st_mode & 0022) != 0) {
    return cannot(fmt::format("there is no private directory {}", place));
  }
  std::string link = fmt::format("{}/{}", place, base::base_name(library));
  if (::symlink(library.c_str(), link.c_str()) != 0) {
    char target[PATH_MAX] = {};
    if (errno != EEXIST || ::readlink(link.c_str(), target, sizeof target - 1) < 0 || library != target) {
      return cannot(fmt::format("cannot make the link {}", link));
    }
  }
  // The library looks for the Python bootstrap beside itself. Without the bootstrap, only exceptions and
  // calls are lost.
  const std::string bootstrap =
      fmt::format("{}/{}", library.substr(0, library.rfind('/')), wire::kPythonDirectory);
  if (::symlink(bootstrap.c_str(), fmt::format("{}/{}", place, wire::kPythonDirectory).c_str()) != 0 &&
      errno != EEXIST) {
    base::log_warn("no Python bootstrap beside {}", link);
  }
  return link;
}

PreloadPlan plan_preload(const std::string& library, const std::string& program,
                         const std::vector<std::string>& env) {
  const PreloadReach reach = preload_reach(program, value_of(env, "ASAN_OPTIONS"));
  PreloadPlan out;
  switch (reach.limit) {
    case PreloadLimit::none:
      if (preloads_asan(value_of(env, "LD_PRELOAD"))) {
        out.reason = "LD_PRELOAD has AddressSanitizer: no stacks of memory faults, which it reports itself";
        out.is_reported = true;
      }
      break;
    case PreloadLimit::set_id:
    case PreloadLimit::other_machine:
    case PreloadLimit::no_loader:
      out.reason = reach.fact;
      break;
    case PreloadLimit::musl:
    case PreloadLimit::asan:
    case PreloadLimit::asan_first:
      out.reason = fmt::format("{}: {}", reach.fact, reach.lost);
      out.is_reported = true;
      break;
  }
  if (reach.limit == PreloadLimit::asan_first) {
    return out;
  }
  if (auto path = preloadable_path(library, directory_for_links())) {
    out.path = *path;
  } else {
    out.reason = base::to_line(path.error());
    out.is_reported = true;
  }
  return out;
}

}  // namespace xpurun::launcher
