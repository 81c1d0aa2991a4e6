// Looks of ranks at their memory as tables, JSON and flame graph; snapshots of PyTorch.
#include "report/memory/memory_report.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "report/diagnosis/memory/held.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/memory/look_files.h"
#include "report/memory/torch_snapshot.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

using namespace xpurun;
using namespace xpurun::report;
using model::LookReason;
using model::MemoryCategory;
using model::MemoryLook;

namespace {

constexpr int64_t kMemoryMiB = int64_t{1} << 20;

MemoryLook look_of_rank(base::Rank rank, LookReason why, int64_t list_mib) {
  MemoryLook out{.rank = rank, .why = why, .step = 12, .wall_ns = 5};
  out.devices = {{.name = "cuda:0",
                  .total = 80 * kMemoryMiB,
                  .free = kMemoryMiB,
                  .reserved = 70 * kMemoryMiB,
                  .allocated = (30 + list_mib) * kMemoryMiB}};
  out.places = {{"/usr/lib/python3/site-packages/torch/nn/functional.py", 7, "linear"},
                {"/job/model.py", 88, "attention"},
                {"/job/train.py", 40, "main"}};
  out.holders = {
      {.device = "cuda:0",
       .category = MemoryCategory::parameters,
       .name = "GPT.#.weight",
       .bytes = 10 * kMemoryMiB,
       .count = 24},
      {.device = "cuda:0",
       .category = MemoryCategory::activations,
       .bytes = 20 * kMemoryMiB,
       .count = 8,
       .site = {0, 1, 2}},
      {.device = "cuda:0",
       .category = MemoryCategory::tensors,
       .name = "list losses of main() (train.py:40)",
       .bytes = list_mib * kMemoryMiB,
       .count = 100,
       .grown = list_mib * kMemoryMiB / 2},
      {.device = "cuda:0", .category = MemoryCategory::unused, .bytes = 5 * kMemoryMiB, .count = 2},
      {.device = "cuda:0",
       .category = MemoryCategory::parameters,
       .bytes = kMemoryMiB,
       .count = 9,
       .rest = 1}};
  return out;
}

std::string cell(const std::vector<TextTable>& tables, const std::string& id, size_t row,
                 const char* column) {
  const auto table = std::find_if(tables.begin(), tables.end(), [&](const auto& t) { return t.id == id; });
  REQUIRE(table != tables.end());
  const auto& names = table->columns;
  const auto at = std::find_if(names.begin(), names.end(), [&](const auto& c) { return c.name == column; });
  REQUIRE(at != names.end());
  return table->rows.at(row).at(static_cast<size_t>(at - names.begin()));
}

bool any_has(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const auto& line) { return line.find(text) != std::string::npos; });
}

MemoryLook snapshot(const char* name) {
  const char* source = std::getenv("XPURUN_TEST_SOURCE");
  REQUIRE(source != nullptr);
  const auto content = base::read_file(std::string(source) + "/tests/data/torch_snapshot/" + name);
  REQUIRE(content);
  auto look = read_torch_snapshot(*content);
  REQUIRE_MESSAGE(look, (look ? "" : look.error().what));
  return std::move(*look);
}

}  // namespace

TEST_CASE("a look survives the way through its file, made safe") {
  MemoryLook look = look_of_rank(3, LookReason::growth, 4);
  look.steps = 8;
  look.holders[0].name = "evil\x1b[31m";
  look.holders[1].site = {0, 99, 2};
  look.holders[2].grown = INT64_MAX;
  look.devices[0].free = -7;
  const std::string json = model::memory_look_json(look);
  CHECK(model::is_memory_look(json));
  const auto read = model::memory_look_from_json(json);
  REQUIRE(read);
  CHECK(read->why == LookReason::growth);
  CHECK(read->rank == 3);
  CHECK(read->holders[0].name.find('\x1b') == std::string::npos);
  CHECK(read->holders[1].site == std::vector<uint32_t>{0, 2});
  CHECK(read->holders[2].grown == read->holders[2].bytes);
  CHECK(read->devices[0].free == 0);
  CHECK_FALSE(model::memory_look_from_json(R"({"schema":"xpurun.memory/1","holders":7})"));
  CHECK_FALSE(model::memory_look_from_json("{"));
}

TEST_CASE("the ranks side by side, and who holds the most") {
  std::vector<MemoryLook> looks;
  for (const base::Rank rank : {0, 1, 2}) {
    looks.push_back(look_of_rank(rank, LookReason::time, rank == 1 ? 40 : 2));
  }
  looks[1].steps = 4;
  const MemoryReport memory = memory_report(looks);
  const auto tables = memory_tables(memory, 10);
  CHECK(cell(tables, "memory", 0, "Held as") == "other tensors");
  CHECK(cell(tables, "memory", 0, "Median") == "2.0 MiB");
  CHECK(cell(tables, "memory", 0, "Most") == "40.0 MiB");
  CHECK(cell(tables, "memory", 2, "Held as") == "parameters");
  CHECK(cell(tables, "memory", 2, "Most") == "11.0 MiB");  // with the rest
  CHECK(cell(tables, "holders", 0, "Holder") == "list losses of main() (train.py:40)");
  CHECK(cell(tables, "holders", 0, "Ranks") == "0-2");
  CHECK(cell(tables, "holders", 1, "Allocated at") == "model.py:88 (attention)");
  CHECK(cell(tables, "growth", 0, "A step") == "+5.0 MiB");
  REQUIRE(tables.size() == 3);
  CHECK(memory_json(memory).find("\"most_rank\": 1") != std::string::npos);
}

TEST_CASE("which look of a rank counts") {
  std::vector<MemoryLook> looks{look_of_rank(0, LookReason::out_of_memory, 9),
                                look_of_rank(0, LookReason::time, 1), look_of_rank(0, LookReason::peak, 1)};
  looks[1].wall_ns = 50;
  looks[2].wall_ns = 70;
  CHECK(memory_report(looks).looks.at(0).why == LookReason::out_of_memory);
  looks.erase(looks.begin());
  CHECK(memory_report(looks).looks.at(0).why == LookReason::time);
  CHECK(memory_report(looks, LookReason::peak).looks.at(0).why == LookReason::peak);
  CHECK(memory_report(looks, LookReason::full).looks.empty());
}

TEST_CASE("the looks of a run directory: most important first, damaged ones are named") {
  const auto dir = *base::TemporaryDirectory::create("looks");
  const auto write = [&](int rank, LookReason why) {
    const std::string ranks = fmt::format("{}/ranks/{}", dir.path(), rank);
    REQUIRE(base::make_dirs(ranks));
    const std::string text = model::memory_look_json(look_of_rank(9, why, 1));
    REQUIRE(base::write_file_atomic(fmt::format("{}/memory-{}.json", ranks, model::name_of(why)), text));
    return text.size();
  };
  const size_t size = write(0, LookReason::first) + write(3, LookReason::out_of_memory);
  REQUIRE(base::write_file_atomic(dir.path() + "/ranks/3/memory-time.json", "{"));
  LookFiles files = read_looks({dir.path()});
  REQUIRE(files.looks.size() == 2);
  CHECK(files.looks[1].rank == 3);
  CHECK(any_has(files.notes, "memory-time.json"));
  files = read_looks({dir.path()}, size * 2 / 3);
  REQUIRE(files.looks.size() == 1);
  CHECK(files.looks[0].why == LookReason::out_of_memory);
  CHECK(any_has(files.notes, "left out"));
}

TEST_CASE("the flame graph of the memory: KiB, and two groups of ranks") {
  const MemoryReport memory =
      memory_report({look_of_rank(0, LookReason::time, 2), look_of_rank(1, LookReason::time, 40)});
  const std::string svg = profile_svg(memory_profile(memory));
  CHECK(svg.find("width is KiB") != std::string::npos);
  CHECK(svg.find("attention (model.py)\n40960 KiB") != std::string::npos);
  CHECK(svg.find("Memory of 2 ranks") != std::string::npos);
  CHECK(svg.find("reserved and unused") == std::string::npos);
  const std::string both = profile_svg(memory_profile(memory), model::RankSet{1});
  CHECK(both.find("of the memory compared with") != std::string::npos);
}

TEST_CASE("a full GPU: who held it, what the other ranks do not hold, and what helps") {
  std::vector<MemoryLook> looks{look_of_rank(0, LookReason::time, 2),
                                look_of_rank(1, LookReason::out_of_memory, 40)};
  const auto words = held_words(looks, 1);
  CHECK(any_has(words,
                "what held the GPU memory of rank 1 then: 40.0 MiB other tensors, 20.0 MiB activations, "
                "11.0 MiB parameters"));
  CHECK(any_has(words, "40.0 MiB in 100 blocks: list losses of main() (train.py:40)"));
  CHECK(any_has(words, "20.0 MiB in 8 blocks: activations, allocated at model.py:88 (attention)"));
  CHECK(any_has(words, "rank 1 holds 38.0 MiB more other tensors than any of rank 0"));
  looks.push_back(look_of_rank(1, LookReason::peak, 1));
  CHECK(any_has(held_words(looks, 1),
                "before a backward pass, 20.0 MiB of activations were allocated at "
                "model.py:88 (attention)"));
  // A look between two steps says nothing about activations within a step.
  CHECK_FALSE(any_has(words, "more activations"));
  model::OutOfMemory full{.asked = 4 * kMemoryMiB, .reserved = kMemoryMiB};
  CHECK(advice_on_full_gpu(full, looks, 1)
            ->starts_with("look at list losses of main() (train.py:40), which "
                          "holds 40.0 MiB"));
  full.others = 5 * kMemoryMiB;  // less than the list
  CHECK(advice_on_full_gpu(full, looks, 1)->starts_with("look at list losses"));
  full.others = 50 * kMemoryMiB;
  CHECK_FALSE(advice_on_full_gpu(full, looks, 1));  // end the other process
  full.others.reset();
  CHECK_FALSE(advice_on_full_gpu(full, looks, 0));  // it made no look when no memory was left
  full.reserved = 9 * kMemoryMiB;
  full.largest = 2 * kMemoryMiB;
  CHECK(advice_on_full_gpu(full, looks, 1)
            ->starts_with("9.0 MiB are reserved and unused, in blocks of at most 2.0 "
                          "MiB: try PYTORCH_CUDA_ALLOC_CONF=expandable_segments"));
  looks[1].devices[0].expandable = 1;
  CHECK(advice_on_full_gpu(full, looks, 1)->starts_with("look at list losses"));
  looks[1].holders[2].bytes = kMemoryMiB;
  CHECK(advice_on_full_gpu(full, looks, 1)->starts_with("activations hold 20.0 MiB"));
  looks[1].holders[1].bytes = kMemoryMiB;
  CHECK(advice_on_full_gpu(full, looks, 1)
            ->starts_with("parameters, gradients and the state of the optimizer hold"));
}

TEST_CASE("what grew, by the step") {
  MemoryLook look = look_of_rank(1, LookReason::growth, 40);
  look.steps = 8;
  look.holders.push_back({.device = "python",
                          .category = MemoryCategory::objects,
                          .bytes = 8 * 1024,
                          .count = 80,
                          .grown = 8 * 1024,
                          .site = {1, 2}});
  CHECK(grower_words({look}, 1, true) ==
        std::vector<std::string>{"rank 1: 2.5 MiB a step in list losses of main() (train.py:40)"});
  CHECK(grower_words({look}, 1, false) ==
        std::vector<std::string>{
            "rank 1: 1.0 KiB a step in Python objects, allocated at model.py:88 (attention)"});
  CHECK(grower_words({look}, 0, true).empty());
}

TEST_CASE("a snapshot of PyTorch: blocks by their stacks, and the last failed request") {
  const MemoryLook look = snapshot("snapshot-2.pickle");
  CHECK(look.why == LookReason::snapshot);
  CHECK(look.asked == 20 * kMemoryMiB);
  REQUIRE(look.device("cuda:1") != nullptr);
  const model::MemoryDevice& device = *look.device("cuda:1");
  CHECK(device.allocated == 49 * kMemoryMiB);
  CHECK(device.largest == 10 * kMemoryMiB);
  CHECK(device.free == 3 * kMemoryMiB);
  CHECK(bytes_of(look, "cuda", MemoryCategory::activations) == 32 * kMemoryMiB);
  CHECK(bytes_of(look, "cuda", MemoryCategory::optimizer) == 8 * kMemoryMiB);
  CHECK(bytes_of(look, "cuda", MemoryCategory::parameters) == 8 * kMemoryMiB);
  CHECK(bytes_of(look, "cuda", MemoryCategory::tensors) == kMemoryMiB);
  CHECK(bytes_of(look, "cuda", MemoryCategory::pending) == kMemoryMiB);
  CHECK(bytes_of(look, "cuda", MemoryCategory::unused) == 14 * kMemoryMiB);
  const std::vector<HeldBy> held = holders_of(look, "cuda");
  CHECK(held.front().place == "model.py:88 (attention)");
  CHECK(held.front().count == 2);
}

TEST_CASE("a snapshot of torch 1.13") {
  const MemoryLook look = snapshot("snapshot-1.pickle");
  CHECK(bytes_of(look, "cuda:0", MemoryCategory::activations) == kMemoryMiB);
  CHECK(holders_of(look, "cuda").front().place == "model.py:88 (attention)");
}

TEST_CASE("what is no snapshot is refused") {
  // pickle.dumps({"segments": [{"device": 0}]}, protocol=2), and {"x": 1}
  using namespace std::string_literals;
  CHECK_FALSE(
      read_torch_snapshot("\x80\x02}q\x00X\x08\x00\x00\x00segmentsq\x01]q\x02}q\x03X\x06\x00\x00\x00"s +
                          "deviceq\x04K\x00s"s + "as."));
  CHECK_FALSE(read_torch_snapshot("\x80\x02}q\x00X\x01\x00\x00\x00xq\x01K\x01s."s));
  CHECK_FALSE(read_torch_snapshot("\x80\x04\x8c\x05posix\x8c\x06system\x93."s));
  CHECK_FALSE(read_torch_snapshot("no pickle"));
}

TEST_CASE("group memory: the last reading before a death says whose it was") {
  using model::HostUse;
  model::MachineHistory machine;
  machine.use = {.begin_wall_ns = 1, .bin_s = 5, .tracks = {}};
  CHECK(report::group_use_words(machine, 0, 10).empty());
  const double gib = 1 << 30;
  machine.use.tracks = {
      {.use = HostUse::group_processes, .object = "/job", .values = {gib, 2 * gib, 9 * gib}},
      {.use = HostUse::group_cache, .object = "/job", .values = {gib, 3 * gib, -1}},
      {.use = HostUse::group_shared, .object = "/job", .values = {0, gib, -1}}};
  CHECK(
      report::group_use_words(machine, 0, 12) ==
      "at the last reading before, the control group /job held 2.0 GiB of processes, 3.0 GiB of files (page "
      "cache) and 1.0 GiB of shared memory");
  CHECK(report::group_use_words(machine, 0, 4).find("held 1.0 GiB of processes") != std::string::npos);
  CHECK(report::group_use_words(machine, 0, -1).empty());
  // A rank in a group of its own.
  machine.places = {{.rank = 1, .memory_group = "/job/rank"}};
  CHECK(report::group_use_words(machine, 1, 12).empty());
}
