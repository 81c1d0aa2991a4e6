#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/speed/trace_manifest.h"
#include "common/model/stacks/stack_file.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace xpurun::model {

using nlohmann::json;

TEST_CASE("an integer keeps its value or is an error, and never becomes another number") {
  CHECK(to_integer<int>(json(-7)) == -7);
  CHECK(to_integer<uint64_t>(json(UINT64_MAX)) == UINT64_MAX);
  CHECK(to_integer<int64_t>(json(INT64_MIN)) == INT64_MIN);
  CHECK_THROWS_AS(to_integer<int>(json(int64_t{1} << 32)), json::exception);
  CHECK_THROWS_AS(to_integer<uint64_t>(json(-1)), json::exception);
  CHECK_THROWS_AS(to_integer<int64_t>(json(UINT64_MAX)), json::exception);
  CHECK_THROWS_AS(to_integer<int>(json(1.0)), json::exception);
  CHECK_THROWS_AS(to_integer<int>(json("1")), json::exception);
}

TEST_CASE("an absent or null member gives the fallback, a member of the wrong type an error") {
  const json j = json::parse(R"({"line": 3, "rank": null, "pid": 5.5e20})");
  CHECK(integer(j, "line", 0) == 3);
  CHECK(integer(j, "rank", -1) == -1);
  CHECK(integer(j, "nothing", 9) == 9);
  CHECK_THROWS_AS(integer(j, "pid", 0), json::exception);
}

TEST_CASE("JSON that is nested too deeply or truncated is refused") {
  CHECK(parse_json(R"({"a": ["[[\\", "\"{"]})").is_object());
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  CHECK(parse_json(nested(kDeepestJson)).is_array());
  CHECK(parse_json(nested(kDeepestJson + 1)).is_discarded());
  CHECK(parse_json("[1, 2").is_discarded());
  // Copying or printing this would overflow the stack.
  CHECK(
      parse_json(R"({"schema": "xpurun.stacks/1", "threads": [)" + nested(1'000'000) + "]}").is_discarded());
}

TEST_CASE("a stacks file with an invalid number is refused with the reason") {
  const auto stacks = process_stacks_from_json(json::parse(
      R"({"schema": "xpurun.stacks/1", "threads": [{"tid": 1, "frames": [{"kind": "python", "line": 5.55556e+20}]}]})"));
  REQUIRE_FALSE(stacks);
  CHECK(stacks.error().what.find("not an integer in range") != std::string::npos);
  CHECK_FALSE(process_stacks_from_json(
      json::parse(R"({"schema": "xpurun.stacks/1", "gpu_kernels": [{"name": "k", "grid": 1e300}]})")));
}

TEST_CASE("an error about a foreign schema is short and has no control characters") {
  const auto trace =
      trace_manifest_from_json(json{{"schema", "xpurun.\x1b]0;x\x07\x7f" + std::string(999, 'x')}});
  REQUIRE_FALSE(trace);
  CHECK(trace.error().what.find("expected 'xpurun.trace/1'") != std::string::npos);
  CHECK(trace.error().what.find_first_of("\x1b\x07\x7f") == std::string::npos);
  CHECK(trace.error().what.size() < 200);
}

TEST_CASE("text that is not UTF-8 is replaced, and does not end the program") {
  CHECK(json_text(json{{"name", "a\xff"}}) == "{\"name\":\"a\xef\xbf\xbd\"}");
  CHECK(json_text(nlohmann::ordered_json{{"b", 1}, {"a", 2}}, 1) == "{\n \"b\": 1,\n \"a\": 2\n}");
}

}  // namespace xpurun::model
