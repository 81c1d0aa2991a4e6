#include "preload/process/log_redirect.h"

#include "common/wire/logs.h"
#include "preload/process/rank_identity.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

constexpr size_t kMaxPath = 4096;

struct FileId {
  uint64_t device;
  uint64_t inode;
};

// Appends to a path under construction; `at` is the index of its terminator. False if the text does not fit.
bool append(char (&path)[kMaxPath], size_t* at, const char* text) {
  const size_t length = strlen(text);
  if (*at + length >= kMaxPath) {
    return false;
  }
  memcpy(path + *at, text, length + 1);
  *at += length;
  return true;
}

// Digits up to a colon; nullptr if there are none.
const char* parse_number(const char* text, uint64_t* value) {
  char* end = nullptr;
  *value = strtoull(text, &end, 10);
  return end != text && *end == ':' ? end + 1 : nullptr;
}

void redirect(int fd, const FileId& original, const char* directory, const char* rank, const char* name) {
  struct stat st;
  if (fstat(fd, &st) != 0 || st.st_dev != original.device || st.st_ino != original.inode) {
    return;
  }
  char path[kMaxPath];
  size_t at = 0;
  if (!append(path, &at, directory) || !append(path, &at, "/") || !append(path, &at, rank)) {
    return;
  }
  mkdir(path, 0700);
  if (!append(path, &at, "/") || !append(path, &at, name)) {
    return;
  }
  const int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log >= 0) {
    dup2(log, fd);
    close(log);
  }
}

}  // namespace

void redirect_output(const char* text) {
  const char* rank = own_rank();
  if (text == nullptr || rank == nullptr) {
    return;
  }
  FileId out{};
  FileId err{};
  uint64_t* const numbers[] = {&out.device, &out.inode, &err.device, &err.inode};
  for (uint64_t* number : numbers) {
    text = parse_number(text, number);
    if (text == nullptr) {
      return;
    }
  }
  if (text[0] != '/') {
    return;
  }
  redirect(1, out, text, rank, wire::kStdoutLog);
  redirect(2, err, text, rank, wire::kStderrLog);
}

}  // namespace xpurun::preload
