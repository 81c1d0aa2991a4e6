#include "launcher/options/command_advice.h"

#include "common/base/error_ids.h"
#include "common/base/os/program.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "launcher/options/command_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace xpurun::launcher {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string quoted(const Words& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : " ") + base::shell_quote(word);
  }
  return out;
}

std::string with_program(const std::string& program, const Words& argv) {
  Words words = argv;
  words.front() = program;
  return fmt::format("xpurun -- {}", quoted(words));
}

Words names_in_path() {
  Words out;
  const char* path = std::getenv("PATH");
  for (std::string_view directory : base::split(path != nullptr ? path : "", ':')) {
    std::error_code error;
    for (fs::directory_iterator it(fs::path(directory), error), end; !error && it != end;
         it.increment(error)) {
      out.push_back(it->path().filename().string());
    }
  }
  std::sort(out.begin(), out.end());  // the same advice for every order of the files
  return out;
}

// "torchrun" is at hand more often than its misspelling; common programs win over equally near ones.
std::optional<std::string> near_program(const std::string& name) {
  static const Words kUsual = {"torchrun", "python",  "python3", "accelerate", "deepspeed",
                               "mpirun",   "mpiexec", "srun",    "horovodrun", "bash"};
  Words usual;
  std::copy_if(kUsual.begin(), kUsual.end(), std::back_inserter(usual),
               [](const std::string& program) { return base::find_program(program).has_value(); });
  if (auto near = base::closest(name, usual)) {
    return near;
  }
  auto near = base::closest(name, names_in_path());
  return near && base::find_program(*near) ? near : std::nullopt;
}

void explain_directory(base::Error& e, const Words& argv) {
  const fs::path directory = argv.front();
  e.sys_errno = 0;
  e.id = base::kNotExecutable;
  e.cause = base::cli_text("it is a directory, not a program");
  std::error_code error;
  for (const char* name : {"__main__.py", "train.py", "main.py"}) {
    if (fs::exists(directory / name, error)) {
      const fs::path script = std::string_view(name) == "__main__.py" ? directory : directory / name;
      e.hint = fmt::format("xpurun -- python3 {}", base::shell_quote(script.string()));
      return;
    }
  }
  e.hint = fmt::format("ls {}", base::shell_quote(directory.string()));
}

Words own_commands() {
  Words out;
  for (const CommandSpec& command : command_table()) {
    out.emplace_back(command.name);
  }
  return out;
}

void explain_absence(base::Error& e, const Words& argv) {
  const std::string& name = argv.front();
  std::error_code error;
  if (const size_t blank = name.find(' '); blank != std::string::npos) {
    if (base::find_program(name.substr(0, blank))) {
      e.cause = base::cli_text("the program and its arguments are quoted as one word");
      e.hint = fmt::format("xpurun -- {}", name);
    }
    return;
  }
  if (is_torchrun_option(name)) {
    e.cause = base::cli_text("{} is an option of torchrun; torchrun is missing before it",
                             name.substr(0, name.find('=')));
    e.hint = fmt::format("xpurun -- torchrun {}", quoted(argv));
    return;
  }
  if (name.find('/') == std::string::npos && fs::is_regular_file(name, error)) {
    const bool python = name.ends_with(".py");
    e.cause = base::cli_text("a file of this name is in this directory, which is not in PATH");
    e.hint = fmt::format("xpurun -- {}{}", python ? "python3 " : "./", quoted(argv));
    return;
  }
  if (const auto command = base::closest(name, own_commands())) {
    e.cause = base::cli_text("there is no such program; did you mean xpurun {}?", *command);
    e.hint = fmt::format("xpurun help {}", *command);
  } else if (const auto program = near_program(name)) {
    e.cause = base::cli_text("there is no such program; did you mean {}?", *program);
    e.hint = with_program(*program, argv);
  }
}

}  // namespace

bool is_torchrun_option(std::string_view word) {
  constexpr std::array<std::string_view, 12> kOptions = {
      "--nproc_per_node", "--nproc-per-node", "--nnodes",       "--node_rank",
      "--node-rank",      "--master_addr",    "--master-addr",  "--master_port",
      "--master-port",    "--standalone",     "--rdzv_backend", "--rdzv-backend"};
  const std::string_view name = word.substr(0, word.find('='));
  return std::find(kOptions.begin(), kOptions.end(), name) != kOptions.end();
}

base::Error explain_failure(base::Error error, const Words& argv) {
  std::error_code ignored;
  const std::string& name = argv.front();
  const bool is_directory = !name.empty() && fs::is_directory(name, ignored);
  if (is_directory && (error.id == base::kNotFound || name.find('/') != std::string::npos)) {
    explain_directory(error, argv);
  } else if (error.id == base::kNotFound) {
    explain_absence(error, argv);
  }
  return error;
}

std::string misplaced_option(const Words& argv) {
  for (size_t i = 1; i < argv.size() && argv[i] != "--"; ++i) {
    std::string name = argv[i].substr(0, argv[i].find('='));
    const bool specific = name.starts_with("--") && name.find('-', 2) != std::string::npos;
    if (specific && !is_torchrun_option(name) && find_option(run_options(), name.substr(2)) != nullptr) {
      return name;
    }
  }
  return "";
}

}  // namespace xpurun::launcher
