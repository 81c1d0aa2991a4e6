#include "commands/selftest/injection.h"
#include "commands/selftest/judge.h"
#include "commands/selftest/places.h"
#include "common/base/os/io.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

std::string job_directory() {
  return std::string(std::getenv("XPURUN_TEST_SOURCE")) + "/commands/selftest/job";
}

std::string text_of_all_jobs() {
  std::string out;
  for (const char* name : {"collective_faults.py", "gpu_faults.py", "host_faults.py", "mpi_faults.py"}) {
    out += base::read_file(job_directory() + "/" + name).value();
  }
  return out;
}

// "SlowLoader" is slow-loader.
std::set<std::string> names_of_slow_jobs() {
  const std::string text = base::read_file(job_directory() + "/slow_faults.py").value();
  constexpr std::string_view kBefore = "\n@slow_job\nclass ";
  std::set<std::string> out;
  for (size_t at = text.find(kBefore); at != std::string::npos; at = text.find(kBefore, at + 1)) {
    std::string name;
    for (size_t i = at + kBefore.size(); text[i] != '('; ++i) {
      const bool upper = std::isupper(static_cast<unsigned char>(text[i])) != 0;
      name += upper && !name.empty() ? "-" : "";
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(text[i])));
    }
    out.insert(name);
  }
  return out;
}

}  // namespace

TEST_CASE("selftest: every injection is a fault of the job, and every fault an injection") {
  const std::string text = text_of_all_jobs();
  std::set<std::string> faults;
  for (size_t at = text.find("\n@fault"); at != std::string::npos; at = text.find("\n@fault", at + 1)) {
    const size_t name = text.find("def ", at) + 4;
    std::string fault = text.substr(name, text.find('(', name) - name);
    std::replace(fault.begin(), fault.end(), '_', '-');
    faults.insert(fault);
  }
  faults.merge(names_of_slow_jobs());
  std::set<std::string> table;
  for (const Injection& injection : injections()) {
    CHECK_MESSAGE(table.insert(std::string(injection.name)).second, injection.name);
    CHECK(!injection.summary.empty());
    CHECK(injection.culprit < injection.least_ranks);
    CHECK(injection.least_ranks <= injection.ranks);
  }
  CHECK(table == faults);
}

TEST_CASE("selftest: every mark of the table is a line of the job") {
  const auto places = load_places(job_directory());
  REQUIRE(places);
  for (const Injection& injection : injections()) {
    for (const Device device : {Device::cpu, Device::gpu}) {
      for (const std::string_view mark : injection.expected_on(device).places) {
        CHECK_MESSAGE(
            std::any_of(places->begin(), places->end(), [&](const Place& p) { return p.mark == mark; }),
            mark);
      }
    }
  }
  CHECK(!load_places(job_directory() + "/none"));
}

TEST_CASE("selftest: a mark has its function and line") {
  const auto places =
      places_in("import x\n\n\ndef outer(a):\n    x.go(a)  # at: gone\n\n\ndef late():\n    pass\n", "j.py");
  REQUIRE(places.size() == 1);
  CHECK(places[0].mark == "gone");
  CHECK(places[0].function == "outer");
  CHECK(places[0].file == "j.py");
  CHECK(places[0].line == 5);
}

TEST_CASE("selftest: two ranks that differ are a tie; among three the culprit is the minority") {
  const Injection* differs = find_injection("wrong-op");
  REQUIRE(differs != nullptr);
  CHECK(blamed(*differs, differs->expected, 3) == model::RankSet{1});
  CHECK(blamed(*differs, differs->expected, 2).empty());
  const Injection* sleeps = find_injection("never-enters");
  REQUIRE(sleeps != nullptr);
  CHECK(blamed(*sleeps, sleeps->expected, 2) == model::RankSet{1});
  const Injection* late = find_injection("late-enters");
  REQUIRE(late != nullptr);
  CHECK(blamed(*late, late->expected, 3).empty());
  CHECK(find_injection("no-such") == nullptr);
}

TEST_CASE("selftest: a tie has no position") {
  const auto places = load_places(job_directory());
  REQUIRE(places);
  const Injection* differs = find_injection("wrong-op");
  REQUIRE(differs != nullptr);
  CHECK(expected_of(*differs, Device::gpu, 2, *places).places.empty());
  CHECK(expected_of(*differs, Device::gpu, 3, *places).places.size() == 2);
}

TEST_CASE("selftest: a job has one rank per GPU, or all its ranks where there are too few GPUs") {
  const Injection* sleeps = find_injection("never-enters");
  REQUIRE(sleeps != nullptr);
  CHECK(sleeps->ranks_on(Device::cpu, 0) == 3);
  CHECK(sleeps->ranks_on(Device::gpu, 2) == 2);
  CHECK(sleeps->ranks_on(Device::gpu, 8) == 3);
  CHECK(sleeps->ranks_on(Device::gpu, 1) == 3);
}
