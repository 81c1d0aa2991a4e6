// The subcommands. Each gets parsed arguments, prints, and returns the exit status.
#pragma once

#include "launcher/options/argv_split.h"
#include "launcher/options/settings.h"

#include <span>
#include <string>
#include <string_view>

namespace xpurun::launcher {

struct Invocation {
  const CommandSpec& command;
  ParsedWords words;
  std::vector<std::string> child;  // the command, for run, doctor and selftest
};

int run_command(const Invocation& call);
int attach_command(const Invocation& call);
int now_command(const Invocation& call);
int memory_command(const Invocation& call);
int record_command(const Invocation& call);
int capture_command(const Invocation& call);
int query_command(const Invocation& call);
int report_command(const Invocation& call);
int stacks_command(const Invocation& call);
int ctl_command(const Invocation& call);
int nodes_command(const Invocation& call);
int top_command(const Invocation& call);
int runs_command(const Invocation& call);
int doctor_command(const Invocation& call);
int selftest_command(const Invocation& call);
int env_command(const Invocation& call);
int events_command(const Invocation& call);
int analyze_command(const Invocation& call);
int diff_command(const Invocation& call);
int timeline_command(const Invocation& call);
int pipeline_command(const Invocation& call);
int replay_command(const Invocation& call);
int help_command(const Invocation& call);
int version_command(const Invocation& call);
int completions_command(const Invocation& call);
// Answers a completion script: `words` is SHELL WORD... The first line says what the script adds: words,
// file, directory or "command N"; each further line is a word, as the shell wants it.
int complete(std::span<const std::string> words);

// Writes all of `text` to standard output. A reader that has gone away is no error; any other failure is
// reported.
int print(std::string_view text);
// Prints the error to standard error and returns `status`.
int complain(const base::Error& error, int status);
// Whether the value of --lang is one of its words. The language itself is base::command_language().
base::Status check_language(const Invocation& call);
// Wrong usage of `call`'s command.
int complain_usage(const Invocation& call, std::string what);

}  // namespace xpurun::launcher
