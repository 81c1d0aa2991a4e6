#include "preload/process/rank_identity.h"

#include "common/wire/identity.h"

#include <stdlib.h>
#include <string.h>

namespace xpurun::preload {

namespace {

constexpr size_t kMaxDigits = 9;

// The value of the variable if it is a decimal number of at most kMaxDigits digits, else nullptr.
const char* number(const char* name) {
  const char* value = name[0] != '\0' ? getenv(name) : nullptr;
  const size_t length = value != nullptr ? strlen(value) : 0;
  const bool is_number = length > 0 && length <= kMaxDigits && strspn(value, "0123456789") == length;
  return is_number ? value : nullptr;
}

}  // namespace

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
