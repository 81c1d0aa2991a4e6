// The subcommands. Each gets its words already read, prints, and returns the exit status.
#pragma once

#include "launcher/cli/argv_split.h"
#include "launcher/cli/settings.h"

#include <string_view>

namespace xpurun::launcher {

struct Invocation {
  const CommandSpec& command;
  ParsedWords words;
  std::vector<std::string> child;  // run: the command to start; doctor: the one to look at
};

int run_command(const Invocation& call);
int report_command(const Invocation& call);
int stacks_command(const Invocation& call);
int ctl_command(const Invocation& call);
int top_command(const Invocation& call);
int runs_command(const Invocation& call);
int doctor_command(const Invocation& call);
int env_command(const Invocation& call);
int help_command(const Invocation& call);
int version_command(const Invocation& call);
int completions_command(const Invocation& call);

// Standard output, whole; a reader that has gone away is not an error worth a word, any other failure is.
int print(std::string_view text);
// The error on standard error; returns `status`.
int complain(const base::Error& error, int status);
// Wrong usage of `call`'s command.
int complain_usage(const Invocation& call, std::string what);

}  // namespace xpurun::launcher
