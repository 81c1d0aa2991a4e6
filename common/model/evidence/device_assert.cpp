#include "common/model/evidence/device_assert.h"

#include "common/base/strings.h"

#include <charconv>

namespace xpurun::model {

namespace {

constexpr std::string_view kBlock = ": block: [";
constexpr std::string_view kAssertion = "] Assertion `";
constexpr std::string_view kFailed = "` failed.";

std::optional<DeviceAssert> parse(std::string_view line) {
  const size_t block = line.find(kBlock);
  const size_t assertion = line.find(kAssertion, block == std::string_view::npos ? block : block + 1);
  const size_t failed = line.rfind(kFailed);
  if (block == std::string_view::npos || assertion == std::string_view::npos ||
      failed == std::string_view::npos || failed < assertion + kAssertion.size()) {
    return std::nullopt;
  }
  // "file:line: function", and the function may contain colons itself.
  const std::string_view head = base::trim(line.substr(0, block));
  for (size_t colon = head.find(':'); colon != std::string_view::npos; colon = head.find(':', colon + 1)) {
    DeviceAssert out;
    const char* begin = head.data() + colon + 1;
    const char* const end = head.data() + head.size();
    const auto [rest, error] = std::from_chars(begin, end, out.line);
    if (error != std::errc() || rest == begin || rest + 1 >= end || *rest != ':') {
      continue;
    }
    out.file = base::sanitize(head.substr(0, colon));
    out.function =
        base::sanitize(base::trim(std::string_view(rest + 1, static_cast<size_t>(end - rest - 1))));
    const size_t condition = assertion + kAssertion.size();
    out.condition = base::sanitize(line.substr(condition, failed - condition));
    return out.file.empty() || out.function.empty() ? std::nullopt : std::optional(std::move(out));
  }
  return std::nullopt;
}

}  // namespace

std::optional<DeviceAssert> find_device_assert(std::string_view text) {
  for (size_t at = text.find(kAssertion); at != std::string_view::npos; at = text.find(kAssertion, at + 1)) {
    const size_t before = text.rfind('\n', at);
    const size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (auto found = parse(text.substr(begin, text.find('\n', at) - begin))) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::model
