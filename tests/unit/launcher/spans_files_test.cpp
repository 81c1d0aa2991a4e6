#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/model/timing/span_file.h"
#include "launcher/spans/span_files.h"
#include "launcher/spans/span_text.h"
#include "launcher/storage/direct_storage.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

using namespace xpurun::launcher;
namespace base = xpurun::base;
namespace model = xpurun::model;

namespace {

DirectStorage span_disk;
const std::vector<std::string> kTexts{"", "all_reduce", "train.py:40 (train)", "abc.0"};

SpanSource source(uint64_t process, base::Rank rank = 5) {
  return {.pid = 7, .rank = rank, .local_rank = 1, .host = "a", .process = process, .names = kTexts};
}

std::vector<model::Span> spans(int64_t first, int64_t count) {
  std::vector<model::Span> out;
  for (int64_t i = first; i < first + count; ++i) {
    out.push_back({.begin_ns = i * 1'000'003,
                   .duration_ns = 500'000 + i % 7,
                   .cpu_ns = 300'000,
                   .stage = model::Stage::communication,
                   .name = 1,
                   .place = 2,
                   .thread = 7,
                   .group = 3,
                   .sequence = static_cast<uint64_t>(i),
                   .bytes = 512});
  }
  return out;
}

class Directory {
 public:
  Directory() : dir_(*base::TemporaryDirectory::create("span-files")) {}
  const std::string& path() const { return dir_.path(); }
  std::string file(int n) const { return path() + "/5/spans-" + std::to_string(n) + ".xsp"; }
  model::SpanFile load(int n) const {
    auto file = model::load_span_file(this->file(n));
    REQUIRE(file);
    return *file;
  }

 private:
  base::TemporaryDirectory dir_;
};

}  // namespace

TEST_CASE("spans and loads reach the rank's file, with their names and what was lost") {
  const Directory dir;
  SpanFiles files(span_disk, dir.path(), 1 << 20);
  files.add(source(1), model::LoadSample{.at_ns = 1});  // before the first span: not a rank of Python
  files.add(source(1), spans(1, 3), 0);
  files.add(source(1), model::LoadSample{.at_ns = 9, .cpu_ns = 8, .run_delay_ns = -1});
  files.add(source(1), spans(4, 1), 40);
  files.add(source(1, base::kNoRank), spans(1, 3), 0);
  files.flush_all();
  const model::SpanFile file = dir.load(1);
  CHECK(file.header.rank == 5);
  CHECK(file.header.pid == 7);
  REQUIRE(file.spans.size() == 4);
  CHECK(file.names[file.spans[3].name] == "all_reduce");
  CHECK(file.names[file.spans[3].group] == "abc.0");
  CHECK(file.spans[3].sequence == 4);
  CHECK(file.loads.size() == 1);
  CHECK(file.lost == 40);
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
}

TEST_CASE("a new process of a rank gets a new file, and its own count of lost spans") {
  const Directory dir;
  SpanFiles files(span_disk, dir.path(), 1 << 20);
  files.add(source(1), spans(1, 3), 50);
  files.add(source(2), spans(1, 2), 0);
  files.add(source(1), model::LoadSample{.at_ns = 1});  // of the old process
  files.flush_all();
  CHECK(dir.load(1).lost == 50);
  CHECK(dir.load(2).lost == 0);
  CHECK(dir.load(2).spans.size() == 2);
  CHECK(dir.load(2).loads.empty());
}

TEST_CASE("span files stay within their limit, and the newest spans are kept") {
  const Directory dir;
  constexpr uint64_t kLimit = 128 << 10;
  SpanFiles files(span_disk, dir.path(), kLimit);
  constexpr int64_t kCount = 40'000;
  for (int64_t i = 0; i < kCount; i += 100) {
    files.add(source(1), spans(i, 100), 0);
  }
  files.flush_all();
  uint64_t bytes = 0;
  int64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path() + "/5")) {
    bytes += entry.file_size();
    const auto file = model::load_span_file(entry.path().string());
    REQUIRE(file);
    CHECK(file->complete);
    newest = std::max(newest, static_cast<int64_t>(file->spans.back().sequence));
  }
  CHECK(bytes <= kLimit);
  CHECK(bytes > kLimit / 2);
  CHECK(newest == kCount - 1);
  CHECK_FALSE(std::filesystem::exists(dir.file(1)));
}

TEST_CASE("no limit means no files") {
  const Directory dir;
  SpanFiles files(span_disk, dir.path(), 0);
  files.add(source(1), spans(1, 3), 0);
  files.flush_all();
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("spans as text and as JSON") {
  model::SpanFile file{.header = {.rank = 3, .pid = 7, .host = "a\x1b", .mono_ns = 1'000, .wall_ns = 5'000},
                       .names = kTexts,
                       .spans = spans(1, 1),
                       .loads = {{.at_ns = 2'000, .cpu_ns = 3, .run_delay_ns = -1, .major_faults = 4}},
                       .lost = 2,
                       .complete = false};
  file.spans.push_back({.begin_ns = 2'000, .stage = model::Stage::mark});
  const std::string head = span_file_text(file, "x.xsp");
  CHECK(head.find("x.xsp: rank 3, pid 7, a") == 0);
  CHECK(head.find("; 2 spans, 2 lost, the end is missing or damaged\n") != std::string::npos);
  CHECK(head.find('\x1b') == std::string::npos);
  CHECK(span_text(file, 0).find("all_reduce #1 512 B at train.py:40 (train)\n") != std::string::npos);
  CHECK(span_text(file, 0).find("500.001        300.000 communication") != std::string::npos);
  const auto span = nlohmann::json::parse(span_json(file, 0));
  CHECK(span["stage"] == "communication");
  CHECK(span["place"] == "train.py:40 (train)");
  CHECK(span["group"] == "abc.0");
  CHECK(span["wall_ns"] == 1'000'003 + 4'000);
  CHECK(nlohmann::json::parse(span_json(file, 1))["cpu_ns"].is_null());
  const auto load = nlohmann::json::parse(load_json(file, 0));
  CHECK(load["run_delay_ns"].is_null());
  CHECK(load["major_faults"] == 4);
  CHECK(nlohmann::json::parse(span_file_json(file, "x"))["schema"] == "xpurun.spans/1");
}
