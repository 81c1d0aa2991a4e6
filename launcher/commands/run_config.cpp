#include "launcher/commands/run_config.h"

#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/options/xpu_timer_environment.h"

#include <fmt/format.h>

#include <cerrno>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// root may have become root for this command only, as git takes it.
bool is_trusted_owner(uid_t owner, const std::map<std::string, std::string>& env) {
  const uid_t self = ::geteuid();
  if (owner == self || owner == 0) {
    return true;
  }
  const auto sudo = self == 0 ? env.find("SUDO_UID") : env.end();
  return sudo != env.end() && base::parse_int(sudo->second) == static_cast<int64_t>(owner);
}

// Many systems give each user a group of the same number, and a umask that lets this group write.
bool others_may_write(const struct stat& st) {
  const bool private_group = st.st_gid == static_cast<gid_t>(st.st_uid);
  return (st.st_mode & S_IWOTH) != 0 || ((st.st_mode & S_IWGRP) != 0 && !private_group);
}

// Why the file is not obeyed; empty if it is, or if it does not exist.
std::string reason_to_ignore(const std::string& path, const std::map<std::string, std::string>& env) {
  struct stat link {};
  struct stat file {};
  // The owner of a link chooses the file.
  if (::lstat(path.c_str(), &link) != 0 || ::stat(path.c_str(), &file) != 0) {
    return errno == EACCES || errno == EPERM ? base::cli_text("it cannot be read") : "";
  }
  if (!S_ISREG(file.st_mode)) {
    return base::cli_text("it is no regular file");
  }
  for (const uid_t owner : {link.st_uid, file.st_uid}) {
    if (!is_trusted_owner(owner, env)) {
      return base::cli_text("it belongs to another user, {}", owner);
    }
  }
  if (others_may_write(file)) {
    return base::cli_text("other users may write it");
  }
  return ::access(path.c_str(), R_OK) != 0 ? base::cli_text("it cannot be read") : "";
}

}  // namespace

std::vector<std::string> RunConfig::warnings() const {
  std::vector<std::string> out = about_environment;
  for (const ConfigFile& file : files) {
    if (!file.ignored.empty()) {
      out.push_back(base::cli_text("{} is ignored: {}; to use it: --config {}", base::sanitize(file.path),
                                   file.ignored, base::shell_quote(file.path)));
    }
  }
  return out;
}

void write_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) {
    base::write_stderr(fmt::format("xpurun: warning: {}\n", warning));
  }
}

base::Result<RunConfig> run_config(Settings first) {
  const CommandSpec& run = *find_command("run");
  RunConfig out{.settings = std::move(first), .files = {}, .env = process_environment()};
  add_environment(out.settings, run, out.env);
  out.about_environment = add_xpu_timer_environment(out.settings, out.env);
  const auto add = [&](const std::string& path, FileLevel level) -> base::Status {
    ConfigFile file{.path = path, .ignored = reason_to_ignore(path, out.env)};
    file.found = file.ignored.empty() && base::file_exists(path);
    out.files.push_back(file);
    return file.found ? add_config_file(out.settings, run, path, level) : base::Status();
  };
  if (const Setting* named = out.settings.find("config")) {
    out.files.push_back({.path = named->value, .found = base::file_exists(named->value)});
    XPURUN_TRY(add_config_file(out.settings, run, std::string(named->value), FileLevel::named));
  } else {
    XPURUN_TRY(add("xpurun.conf", FileLevel::project));
  }
  if (const std::string path = user_config_path(out.env); !path.empty()) {
    XPURUN_TRY(add(path, FileLevel::user));
  }
  return out;
}

}  // namespace xpurun::launcher
