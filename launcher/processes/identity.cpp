#include "launcher/processes/identity.h"

#include "common/base/strings.h"

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

constexpr std::array<std::string_view, 5> kLauncherScripts = {"torchrun", "torchx", "accelerate", "deepspeed",
                                                              "colossalai"};
constexpr std::array<std::string_view, 5> kLauncherModules = {
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch",
    "deepspeed.launcher.launch", "torch.distributed.launcher"};

std::optional<int> number(const std::map<std::string, std::string>& env, const char* name) {
  const auto it = env.find(name);
  if (it == env.end()) {
    return std::nullopt;
  }
  const auto n = base::parse_int(it->second);
  if (!n || *n < 0 || *n > INT32_MAX) {
    return std::nullopt;
  }
  return static_cast<int>(*n);
}

template <size_t N>
bool contains(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

model::RankSource source_of(IdentityKind kind) {
  switch (kind) {
    case IdentityKind::torchrun:
      return model::RankSource::torchrun;
    case IdentityKind::plain:
      return model::RankSource::plain;
    case IdentityKind::slurm:
      return model::RankSource::slurm;
    case IdentityKind::openmpi:
      return model::RankSource::openmpi;
    case IdentityKind::pmi:
      return model::RankSource::pmi;
    case IdentityKind::group:
      return model::RankSource::spawned;
    case IdentityKind::single:
      break;
  }
  return model::RankSource::single;
}

std::optional<Identity> identity_from(const std::map<std::string, std::string>& env) {
  for (const wire::IdentityVariables& v : wire::kIdentityVariables) {
    const auto rank = number(env, v.rank);
    const auto local = number(env, v.local_rank);
    const auto world = number(env, v.world_size);
    if (!rank || (v.needs_local_rank && !local) || (v.needs_world_size && !world)) {
      continue;
    }
    return Identity{
        .kind = v.kind, .rank = *rank, .local_rank = local.value_or(-1), .world_size = world.value_or(0)};
  }
  return std::nullopt;
}

bool starts_ranks(const std::vector<std::string>& argv) {
  // python [-uE ...] -m MODULE ..., python [-uE ...] SCRIPT ..., or the script itself by its shebang line.
  for (size_t i = 0; i < argv.size(); ++i) {
    const std::string& word = argv[i];
    if (word == "-m") {
      return i + 1 < argv.size() && contains(kLauncherModules, argv[i + 1]);
    }
    if (i > 0 && word == "-c") {
      return false;
    }
    // The next word is the argument of these options.
    if (i > 0 && (word == "-W" || word == "-X")) {
      ++i;
    } else if (!word.starts_with("-") && (i > 0 || contains(kLauncherScripts, base::base_name(word)))) {
      return contains(kLauncherScripts, base::base_name(word));
    }
  }
  return false;
}

MultiprocessingPart multiprocessing_part(const std::vector<std::string>& argv) {
  for (const std::string& word : argv) {
    // Of multiprocessing, or of loky in joblib.
    if (word.starts_with("from ") && word.find("resource_tracker import main") != std::string::npos) {
      return MultiprocessingPart::resource_tracker;
    }
    if (word.starts_with("from multiprocessing.forkserver import")) {
      return MultiprocessingPart::fork_server;
    }
  }
  return MultiprocessingPart::none;
}

}  // namespace xpurun::launcher
