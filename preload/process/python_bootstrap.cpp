#include "preload/process/python_bootstrap.h"

#include "common/wire/python.h"
#include "preload/process/process_kind.h"
#include "preload/process/rank_identity.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr char kPathEnv[] = "PYTHONPATH";
constexpr int kOldestMinor = 8;
// PYTHONPATH with this library's directory in front; a longer one stays unchanged.
constexpr size_t kMostPathBytes = 32 * 1024;

// Python reads the environment and imports `site`. Also false for -v and -X importtime, whose output would
// show the import of the bootstrap. Options end at the first word that is no option, and at -c and -m.
bool reads_environment(int argc, char** argv) {
  for (int i = 1; i < argc && argv[i] != nullptr && argv[i][0] == '-'; ++i) {
    const char* word = argv[i];
    if (word[1] == '\0' || strcmp(word, "--") == 0) {
      break;
    }
    if (word[1] == '-') {
      i += strcmp(word, "--check-hash-based-pycs") == 0 ? 1 : 0;
      continue;
    }
    for (const char* letter = word + 1; *letter != '\0'; ++letter) {
      if (strchr("IESv", *letter) != nullptr) {
        return false;
      }
      if (*letter == 'c' || *letter == 'm') {
        return true;
      }
      if (*letter == 'W' || *letter == 'X') {
        // The value is the rest of the word, or the next word.
        const char* value = letter[1] != '\0' ? letter + 1 : (++i < argc ? argv[i] : "");
        if (*letter == 'X' && strncmp(value, "importtime", strlen("importtime")) == 0) {
          return false;
        }
        break;
      }
    }
  }
  return true;
}

// "3.11.2 (main, ...": the function needs no interpreter.
bool is_known_version() {
  using GetVersion = const char* (*)();
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(RTLD_DEFAULT, "Py_GetVersion"));
  const char* version = get_version != nullptr ? get_version() : "";
  return strncmp(version, "3.", 2) == 0 && atoi(version + 2) >= kOldestMinor;
}

bool is_interpreter() {
  ProgramPath path;
  return strncmp(program_name(path), "python", strlen("python")) == 0;
}

struct Directory {
  char path[4096];
};

// "<directory of this library>/python"; false if the bootstrap is missing.
bool find_directory(Directory* out) {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&find_directory), &info) == 0 || info.dli_fname[0] != '/' ||
      strchr(info.dli_fname, ':') != nullptr) {
    return false;
  }
  const char* slash = strrchr(info.dli_fname, '/');
  const int length = static_cast<int>(slash - info.dli_fname);
  char file[sizeof(out->path)];
  snprintf(out->path, sizeof(out->path), "%.*s/%s", length, info.dli_fname, wire::kPythonDirectory);
  snprintf(file, sizeof(file), "%.*s/%s/sitecustomize.py", length, info.dli_fname, wire::kPythonDirectory);
  return access(file, R_OK) == 0;
}

bool is_switched_off() {
  const char* value = getenv(wire::kPythonHooksEnv);
  return value != nullptr && strcmp(value, "off") == 0;
}

// Removes variables of a parent whose interpreter never ran or never reached its bootstrap.
void undo_what_a_parent_left(const char* directory) {
  const char* state = getenv(wire::kPythonStateEnv);
  if (state == nullptr) {
    return;
  }
  const bool was_set = strchr(state, wire::kPythonPathWasSet) != nullptr;
  const char* path = getenv(kPathEnv);
  const size_t length = strlen(directory);
  if (path != nullptr && strncmp(path, directory, length) == 0 &&
      (path[length] == ':' || path[length] == '\0')) {
    if (was_set) {
      char rest[kMostPathBytes];
      snprintf(rest, sizeof(rest), "%s", path[length] == ':' ? path + length + 1 : "");
      setenv(kPathEnv, rest, 1);
    } else {
      unsetenv(kPathEnv);
    }
  }
  unsetenv(wire::kPythonStateEnv);
}

}  // namespace

void offer_python_bootstrap(int argc, char** argv) {
  Directory directory;
  if (!is_interpreter() || !find_directory(&directory)) {
    return;
  }
  undo_what_a_parent_left(directory.path);
  if (is_switched_off() || !reads_environment(argc, argv) || !is_known_version()) {
    return;
  }
  const char* users = getenv(kPathEnv);
  char path[kMostPathBytes];
  const bool has_entries = users != nullptr && users[0] != '\0';
  const int length = snprintf(path, sizeof(path), "%s%s%s", directory.path, has_entries ? ":" : "",
                              has_entries ? users : "");
  if (length < 0 || length >= static_cast<int>(sizeof(path))) {
    return;
  }
  char state[4] = {};
  char* at = state;
  *at++ = users != nullptr ? wire::kPythonPathWasSet : wire::kPythonStateNone;
  *at++ = has_rank_environment() ? wire::kPythonIsRank : wire::kPythonStateNone;
  setenv(kPathEnv, path, 1);
  setenv(wire::kPythonStateEnv, state, 1);
}

}  // namespace xpurun::preload
