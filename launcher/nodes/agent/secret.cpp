#include "launcher/nodes/agent/secret.h"

#include "common/base/os/io.h"
#include "common/model/json/json_text.h"
#include "launcher/nodes/agent/protocol/wire.h"
#include "launcher/nodes/node_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::nodes {

namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "xpurun.nats/1";
constexpr size_t kLargestSecret = size_t{64} << 10;
constexpr mode_t kOthers = 077;

}  // namespace

std::string default_secret_file(const std::string& run_directory, const std::string& run) {
  const std::string trimmed = run_directory.substr(0, run_directory.find_last_not_of('/') + 1);
  const size_t slash = trimmed.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : trimmed.substr(0, slash);
  return parent + "/.xpurun-nats-" + subject_word(run).substr(0, 200) + ".json";
}

base::Status write_secret(const std::string& path, const Secret& secret) {
  nlohmann::ordered_json j = {
      {"schema", kSchema}, {"run", secret.run}, {"url", secret.url}, {"token", secret.token}};
  model::JsonWriter writer(j);
  writer("mark", secret.mark);
  return base::write_file_atomic(path, model::json_text(j, 1) + "\n");
}

void remove_secret(const std::string& path, const Secret& written) {
  const auto now = read_secret(path, written.run, written.mark);
  if (now && *now && (*now)->token == written.token) {
    ::unlink(path.c_str());
  }
}

base::Result<std::optional<Secret>> read_secret(const std::string& path, const std::string& run,
                                                const launcher::JobMark& mark) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    return base::fail_errno("cannot look at " + path);
  }
  // In a shared directory, another user's file or link could lead this node to a server of that user.
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & kOthers) != 0) {
    return base::fail(fmt::format("{} must be a plain file of this user with mode 0600", path));
  }
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(path, kLargestSecret));
  const json j = model::parse_json(text);
  try {
    if (!j.is_object() || j.value("schema", "") != kSchema) {
      return base::fail(path + " is not a secret file of xpurun");
    }
    Secret out{.run = j.value("run", ""), .url = j.value("url", ""), .token = j.value("token", "")};
    model::JsonReader reader(j);
    reader("mark", out.mark);
    if (out.run != run || !launcher::may_be_one_job(out.mark, mark)) {
      return std::nullopt;
    }
    if (out.url.empty() || out.token.empty()) {
      return base::fail(path + " has no URL or no token");
    }
    return out;
  } catch (const json::exception& e) {
    return base::fail(fmt::format("{}: {}", path, e.what()));
  }
}

}  // namespace xpurun::nodes
