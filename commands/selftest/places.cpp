#include "commands/selftest/places.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <filesystem>

namespace xpurun::launcher {

namespace {

constexpr std::string_view kMark = "# at: ";
constexpr std::string_view kFunction = "def ";

std::string name_of_function(std::string_view line) {
  const std::string_view words = base::trim(line);
  return std::string(words.substr(kFunction.size(), words.find('(') - kFunction.size()));
}

}  // namespace

std::vector<Place> places_in(std::string_view text, std::string_view file) {
  std::vector<Place> out;
  std::string function;
  int number = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    ++number;
    if (base::trim(line).starts_with(kFunction)) {
      function = name_of_function(line);
    }
    if (const size_t at = line.find(kMark); at != std::string_view::npos) {
      out.push_back({.mark = std::string(base::trim(line.substr(at + kMark.size()))),
                     .file = std::string(file),
                     .function = function,
                     .line = number});
    }
  }
  return out;
}

base::Result<std::vector<Place>> load_places(const std::string& directory) {
  std::vector<Place> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".py") {
      XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(entry.path()));
      for (Place& place : places_in(text, entry.path().filename().string())) {
        out.push_back(std::move(place));
      }
    }
  }
  if (error || out.empty()) {
    return base::fail_errno(fmt::format("no job of the selftest in {}", directory), error.value());
  }
  return out;
}

}  // namespace xpurun::launcher
