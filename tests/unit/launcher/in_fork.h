// Runs a part of a test in a process of its own, which may change what belongs to a whole process: its
// session, its terminal, the system calls that work.
#pragma once

#include "common/base/os/fd.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace xpurun::test {

// What `body` has returned; "no result" if it failed, or took a minute.
inline std::string in_fork(const std::function<std::string()>& body) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  base::UniqueFd result(ends[0]);
  base::UniqueFd end(ends[1]);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(60);
    std::string out = "no result";
    try {
      out = body();
    } catch (...) {
    }
    ::_exit(::write(end.get(), out.data(), out.size()) == static_cast<ssize_t>(out.size()) ? 0 : 1);
  }
  end.reset();
  std::string out;
  char chunk[4096];
  for (ssize_t n = 0; (n = ::read(result.get(), chunk, sizeof chunk)) > 0;) {
    out.append(chunk, static_cast<size_t>(n));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0 ? out : "no result";
}

}  // namespace xpurun::test
