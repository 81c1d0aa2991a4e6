// Answers the completion scripts: what may follow the words of a command line (commands/cli/completion.h).
#include "commands/cli/completion.h"
#include "commands/commands.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "launcher/options/exit_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

namespace fs = std::filesystem;

std::vector<Suggestion> runs() {
  std::vector<Suggestion> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("xpurun-runs", error)) {
    if (fs::exists(entry.path() / "run.json", error)) {
      out.push_back({.word = entry.path().filename().string(), .about = {}});
    }
  }
  return out;
}

std::vector<Suggestion> python_processes() {
  std::vector<Suggestion> out;
  const base::ProcFs proc;
  for (const base::Pid pid : proc.processes()) {
    const auto command = proc.cmdline(pid);
    const auto status = proc.status(pid);
    if (!command.empty() && base::base_name(command.front()).starts_with("python") && status &&
        status->uid == ::getuid()) {
      out.push_back({.word = std::to_string(pid), .about = base::sanitize(base::join(command, " "))});
    }
  }
  return out;
}

// bash shows no descriptions; zsh splits at the first ":".
std::string line_of(const Suggestion& s, Shell shell) {
  std::string word = s.word;
  if (shell == Shell::zsh) {
    for (size_t at = word.find(':'); at != std::string::npos; at = word.find(':', at + 2)) {
      word.insert(at, 1, '\\');
    }
  }
  if (shell == Shell::bash || s.about.empty()) {
    return word;
  }
  std::string about = s.about;
  std::replace(about.begin(), about.end(), '\n', ' ');
  return word + (shell == Shell::zsh ? ':' : '\t') + about;
}

}  // namespace

int complete(std::span<const std::string> words) {
  const auto shell = words.empty() ? std::nullopt : shell_named(words.front());
  if (!shell) {
    return kExitFailure;
  }
  Offer offer = offer_for(words.subspan(1));
  std::string also = "words";
  std::vector<Suggestion> found;
  switch (offer.also) {
    case Offered::nothing:
      break;
    case Offered::files:
      also = "file";
      break;
    case Offered::runs:
      found = runs();
      also = "directory";
      break;
    case Offered::directories:
      also = "directory";
      break;
    case Offered::processes:
      found = python_processes();
      break;
    case Offered::command:
      also = fmt::format("command {}", offer.begin);
      break;
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.word < b.word; });
  std::string out = also + "\n";
  for (const auto* list : {&offer.words, &found}) {
    for (const Suggestion& s : *list) {
      out += line_of(s, *shell) + "\n";
    }
  }
  return print(out);
}

}  // namespace xpurun::launcher
