#include "commands/run_paths.h"

#include "common/model/run_dir.h"

#include <filesystem>

namespace xpurun::launcher {

base::Result<std::vector<std::string>> run_paths(std::vector<std::string> words) {
  if (words.empty()) {
    words.emplace_back("latest");
  }
  for (std::string& word : words) {
    std::error_code ec;
    if (!std::filesystem::exists(word, ec)) {
      XPURUN_TRY_ASSIGN(const model::RunDir dir, model::RunDir::find(word));
      word = dir.path();
    }
  }
  return words;
}

}  // namespace xpurun::launcher
