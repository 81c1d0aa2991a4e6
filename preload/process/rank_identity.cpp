#include "preload/process/rank_identity.h"

#include "common/wire/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr size_t kMaxDigits = 9;
// From a rank's library to those of the programs that the rank starts: "<pid>:<values of all variables>".
constexpr char kRankMarkEnv[] = "XPURUN_RANK_MARK";

// The value of the variable if it is a decimal number of at most kMaxDigits digits, else nullptr.
const char* number(const char* name) {
  const char* value = name[0] != '\0' ? getenv(name) : nullptr;
  const size_t length = value != nullptr ? strlen(value) : 0;
  const bool is_number = length > 0 && length <= kMaxDigits && strspn(value, "0123456789") == length;
  return is_number ? value : nullptr;
}

struct Mark {
  char text[160];  // empty: the variables do not fit
};

// ":0::3:..." of all variables with ranks.
Mark variables_of_ranks() {
  Mark mark{};
  size_t length = 0;
  for (const wire::IdentityVariables& variables : wire::kIdentityVariables) {
    const char* const names[] = {variables.rank, variables.local_rank};
    for (const char* name : names) {
      const char* value = number(name);
      const size_t size = value != nullptr ? strlen(value) : 0;
      if (length + 1 + size >= sizeof(mark.text)) {
        return {};
      }
      mark.text[length++] = ':';
      memcpy(mark.text + length, value != nullptr ? value : "", size);
      length += size;
    }
  }
  return mark;
}

}  // namespace

bool is_started_by_rank() {
  const char* said = getenv(kRankMarkEnv);
  if (said == nullptr) {
    return false;
  }
  char* variables = nullptr;
  // After exec, the rank itself finds its mark.
  const bool by_itself = strtol(said, &variables, 10) == getpid();
  const Mark ours = variables_of_ranks();
  return !by_itself && ours.text[0] != '\0' && strcmp(variables, ours.text) == 0;
}

void mark_rank() {
  const Mark mark = variables_of_ranks();
  char text[sizeof(mark.text) + 16];
  if (mark.text[0] != '\0') {
    snprintf(text, sizeof(text), "%ld%s", static_cast<long>(getpid()), mark.text);
    setenv(kRankMarkEnv, text, 1);
  }
}

bool has_rank_environment() {
  for (const wire::IdentityVariables& variables : wire::kIdentityVariables) {
    if (number(variables.rank) != nullptr) {
      return true;
    }
  }
  return false;
}

const char* own_rank() {
  for (const wire::IdentityVariables& variables : wire::kIdentityVariables) {
    const char* rank = number(variables.rank);
    const bool is_complete = !variables.needs_local_rank || number(variables.local_rank) != nullptr;
    if (variables.is_per_process && rank != nullptr && is_complete) {
      return rank;
    }
  }
  return nullptr;
}

}  // namespace xpurun::preload
