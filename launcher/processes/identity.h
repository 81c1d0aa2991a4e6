// The rank of a process, from its environment. Precedence: torchrun, plain RANK, Slurm, Open MPI, PMI.
#pragma once

#include "common/base/ids.h"
#include "common/model/vocabulary.h"
#include "common/wire/identity.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// In order of precedence; the variables of each kind are in the table of common/wire/identity.h.
using IdentityKind = wire::IdentityKind;

struct Identity {
  IdentityKind kind = IdentityKind::single;
  base::Rank rank = 0;
  int local_rank = -1;  // -1: unknown
  int world_size = 0;   // 0: unknown

  friend bool operator==(const Identity&, const Identity&) = default;
};

model::RankSource source_of(IdentityKind kind);

// Empty if no kind has complete and numeric variables.
std::optional<Identity> identity_from(const std::map<std::string, std::string>& env);

// Whether these are the arguments of a Python program that starts ranks and is not a rank itself (torchrun,
// accelerate, deepspeed, ...). Such a program may wait for other nodes for any time without being a hang.
bool starts_ranks(const std::vector<std::string>& argv);

// Classifies arguments: the resource tracker of Python's multiprocessing, or its fork server. Processes
// forked by the fork server keep the server's arguments.
enum class MultiprocessingPart { none, resource_tracker, fork_server };
MultiprocessingPart multiprocessing_part(const std::vector<std::string>& argv);

}  // namespace xpurun::launcher
