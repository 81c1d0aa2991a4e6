#include "commands/doctor/context.h"

#include "commands/child.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kDeepest = 5;
constexpr size_t kLongestFirstLine = 256;

// "/usr/bin/python3" of "#!/usr/bin/env -S python3 -u"; empty if the file is no script.
std::string interpreter_of(const std::string& path) {
  const auto file = base::open_read(path);
  char buf[kLongestFirstLine];
  const ssize_t n = file ? ::pread(file->get(), buf, sizeof buf, 0) : 0;
  std::string_view line(buf, static_cast<size_t>(n > 0 ? n : 0));
  line = line.substr(0, line.find('\n'));
  if (!line.starts_with("#!")) {
    return {};
  }
  std::vector<std::string> words;
  for (std::string_view word : base::split(base::trim(line.substr(2)), ' ')) {
    if (!word.empty()) {
      words.emplace_back(word);
    }
  }
  if (words.empty() || base::base_name(words.front()) != "env") {
    return words.empty() ? std::string() : words.front();
  }
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with("-") && words[i].find('=') == std::string::npos) {
      return find_program(words[i]);
    }
  }
  return {};
}

}  // namespace

ProgramOfCommand program_of(const std::vector<std::string>& command) {
  ProgramOfCommand out;
  if (command.empty()) {
    return out;
  }
  out.path = find_program(command.front());
  for (std::string at = out.path; !at.empty() && out.chain.size() < kDeepest; at = interpreter_of(at)) {
    out.chain.push_back(at);
  }
  return out;
}

}  // namespace xpurun::launcher
