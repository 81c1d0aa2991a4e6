#include "report/events/files/record_files.h"
#include "report/events/foreign/foreign_record.h"
#include "report/events/foreign/perfetto/trace.h"
#include "report/timeline/timeline.h"
#include "tests/support/perfetto_text.h"
#include "tests/unit/report/timeline/samples.h"

#include <algorithm>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <set>
#include <sstream>
#include <tuple>

using namespace xpurun;
using namespace xpurun::report;

namespace {

// A job of two ranks on two hosts with spans, and its Perfetto trace.
struct Traced {
  base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-perfetto-test-");

  std::string path(const std::string& name) const { return dir.path() + "/" + name; }

  Traced() {
    for (int rank = 0; rank < 2; ++rank) {
      const std::string host = fmt::format("node{}", rank);
      put_file(path(fmt::format("run/ranks/{}/events-1.xev", rank)),
               sample_events({.rank = rank, .host = host, .clock_error_ns = rank * 3'000'000}));
      model::SpanEncoder spans;
      for (int step = 0; step < 2; ++step) {
        spans.add({.begin_ns = 1'000'000 + step * 1'000'000,
                   .duration_ns = 30'000,
                   .cpu_ns = 12'000,
                   .stage = model::Stage::optimizer,
                   .name = spans.name("SGD.step"),
                   .place = spans.name("train.py:4 (main)"),
                   .thread = 7});
        spans.add({.begin_ns = 1'040'000 + step * 1'000'000,
                   .stage = model::Stage::mark,
                   .name = spans.name("step"),
                   .thread = 7});
      }
      put_file(path(fmt::format("run/ranks/{}/spans-1.xsp", rank)),
               model::SpanEncoder::header({.rank = rank,
                                           .pid = 100 + rank,
                                           .host = host,
                                           .mono_ns = 0,
                                           .wall_ns = kWall + rank * 3'000'000}) +
                   spans.take_block());
    }
    write({path("run")}, "job.perfetto-trace", Compression::none);
  }

  TimelineResult write(const std::vector<std::string>& from, const std::string& name,
                       Compression compression) const {
    auto made = make_timeline(from, {.out = path(name), .compression = compression});
    REQUIRE_MESSAGE(made, (made ? "" : made.error().what));
    return std::move(*made);
  }
  std::string text(const std::string& name) const {
    const auto bytes = base::read_file(path(name));
    REQUIRE(bytes);
    return testing::PerfettoText::of(*bytes);
  }
};

// The lines of a text without the words that say which tool had written the input.
std::multiset<std::string> lines(std::string text) {
  const std::string tool = ", Perfetto";
  for (size_t at = text.find(tool); at != std::string::npos; at = text.find(tool)) {
    text.erase(at, tool.size());
  }
  std::multiset<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    // Flows are numbered by their order in the file.
    out.insert(line.substr(0, line.find(" flow")));
  }
  return out;
}

Activity rank_of(const std::string& path, base::Rank rank) {
  Activity out{.rank = rank};
  const auto added = add_perfetto_trace(out, path);
  REQUIRE_MESSAGE(added, (added ? "" : added.error().what));
  return out;
}

}  // namespace

TEST_CASE("an own Perfetto trace is read again: the same rows, slices, arguments and times") {
  const Traced job;
  const TimelineResult again =
      job.write({job.path("job.perfetto-trace")}, "again.perfetto-trace", Compression::none);
  CHECK(again.processes == 2);
  CHECK(again.problems.empty());
  const auto before = lines(job.text("job.perfetto-trace"));
  CHECK(before.size() > 40);
  CHECK(lines(job.text("again.perfetto-trace")) == before);
  // A third time, the name does not grow.
  job.write({job.path("again.perfetto-trace")}, "third.perfetto-trace", Compression::none);
  CHECK(job.text("third.perfetto-trace") == job.text("again.perfetto-trace"));
}

TEST_CASE("an own Perfetto trace keeps its meetings, launches and clocks") {
  const Traced job;
  const auto owners = owners_of_perfetto_trace(job.path("job.perfetto-trace"));
  REQUIRE(owners);
  REQUIRE(owners->size() == 2);
  CHECK(owners->at(1).rank == 1);
  CHECK(owners->at(1).host == "node1");
  const Activity a = rank_of(job.path("job.perfetto-trace"), 0);
  const Activity b = rank_of(job.path("job.perfetto-trace"), 1);
  CHECK(b.pid == 101);
  CHECK(b.gpu == "H200");
  std::set<uint64_t> meetings;
  for (const Slice& s : a.slices) {
    if (s.meeting != 0) {
      meetings.insert(s.meeting);
    }
  }
  CHECK(meetings.size() == 2);
  for (const Slice& s : b.slices) {
    CHECK((s.meeting == 0 || meetings.contains(s.meeting)));
  }
  CHECK(std::count_if(a.slices.begin(), a.slices.end(), [](const Slice& s) { return s.launch != 0; }) == 4);
  const auto result = job.write({job.path("job.perfetto-trace")}, "again", Compression::gzip);
  CHECK(result.clocks.collectives == 2);
  CHECK(result.clocks.worst_us == 0);
}

TEST_CASE("an own Perfetto trace counts for analyses as the run does") {
  const Traced job;
  RankRecord run{.rank = 1};
  std::string damage;
  for (const char* name : {"run/ranks/1/events-1.xev", "run/ranks/1/spans-1.xsp"}) {
    const RecordFiles files = record_files(job.path(name));
    REQUIRE(add_to_record(run, files.files.at(0), {.rank = 1}, damage));
  }
  RankRecord trace{.rank = 1};
  REQUIRE(
      add_to_record(trace, record_files(job.path("job.perfetto-trace")).files.at(0), {.rank = 1}, damage));
  CHECK(damage.empty());
  CHECK_FALSE(trace.whole);  // the calls may have been sampled
  const auto summary = [](const RankRecord& record) {
    std::map<std::tuple<int, int64_t, int64_t, int64_t, uint32_t, uint64_t>, uint64_t> out;
    const model::EventFile& file = record.events.at(0);
    for (const auto& entry : file.events) {
      const auto& op = file.ops.at(entry.event.op);
      if (op.key.op_class != static_cast<uint8_t>(wire::OpClass::host)) {
        out[{op.key.op_class, op.key.m, op.key.n, op.key.k, op.key.dtype[0], op.work}] +=
            entry.event.duration_ns;
      }
    }
    return out;
  };
  // Keys of copies have no sizes in the sample.
  auto of_run = summary(run);
  auto of_trace = summary(trace);
  const auto is_memory = [](const auto& one) {
    return std::get<0>(one.first) == static_cast<int>(wire::OpClass::memory);
  };
  std::erase_if(of_run, is_memory);
  std::erase_if(of_trace, is_memory);
  CHECK(of_run.size() == 2);
  for (const auto& [key, ns] : of_run) {
    const auto found = std::find_if(of_trace.begin(), of_trace.end(), [&key = key](const auto& one) {
      return std::get<0>(one.first) == std::get<0>(key) && std::get<5>(one.first) == std::get<5>(key);
    });
    REQUIRE(found != of_trace.end());
    CHECK(found->second == ns);
    CHECK(std::get<3>(found->first) == std::get<3>(key));
    CHECK(std::get<4>(found->first) == std::get<4>(key));
  }
  const auto marks = [](const RankRecord& record) {
    const auto& spans = record.spans.at(0).spans;
    return std::count_if(spans.begin(), spans.end(),
                         [](const model::Span& s) { return s.stage == model::Stage::mark; });
  };
  CHECK(marks(run) == 2);
  CHECK(marks(trace) == 2);
}

TEST_CASE("a Perfetto trace that is cut off anywhere gives its slices or a reason") {
  const Traced job;
  const std::string whole = *base::read_file(job.path("job.perfetto-trace"));
  for (size_t size = 0; size < whole.size(); size += 7) {
    std::istringstream text(whole.substr(0, size));
    Activity a{.rank = 0};
    const auto parsed = parse_perfetto_trace(a, *text.rdbuf());
    CHECK((!parsed || a.slices.size() <= 16));
  }
  const std::string path = job.path("cut.perfetto-trace");
  REQUIRE(base::write_file_atomic(path, whole.substr(0, whole.size() - 40)));
  const auto made = make_timeline({path}, {.out = job.path("out")});
  REQUIRE(made);
  REQUIRE(made->problems.size() == 2);  // of both ranks
  CHECK(made->problems[0].what.find("cut.perfetto-trace") != std::string::npos);
}

TEST_CASE("a Perfetto trace of another program: threads, defaults of a sequence, names in place") {
  std::string bytes;
  protozero::pbf_writer file(bytes);
  const auto packet = [&](uint64_t at, auto&& fill) {
    protozero::pbf_writer p(file, 1);
    if (at != 0) {
      p.add_uint64(8, at);
    }
    p.add_uint32(10, 3);
    fill(p);
  };
  packet(0, [](protozero::pbf_writer& p) {
    protozero::pbf_writer d(p, 60);
    d.add_uint64(1, 11);
    protozero::pbf_writer process(d, 3);
    process.add_int32(1, 4242);
    process.add_string(6, "trainer");
  });
  packet(0, [](protozero::pbf_writer& p) {
    protozero::pbf_writer d(p, 60);
    d.add_uint64(1, 12);
    protozero::pbf_writer thread(d, 4);
    thread.add_int32(1, 4242);
    thread.add_int32(2, 4243);
    thread.add_string(5, "loader\x1b");
  });
  packet(0, [](protozero::pbf_writer& p) {
    protozero::pbf_writer defaults(p, 59);
    protozero::pbf_writer event(defaults, 11);
    event.add_uint64(11, 12);
  });
  packet(1'000, [](protozero::pbf_writer& p) {
    protozero::pbf_writer e(p, 11);
    e.add_int32(9, 1);
    e.add_string(23, "load");
    e.add_string(22, "io");
  });
  packet(1'500, [](protozero::pbf_writer& p) {
    protozero::pbf_writer e(p, 11);
    e.add_int32(9, 2);
  });
  packet(1'600, [](protozero::pbf_writer& p) {
    protozero::pbf_writer e(p, 11);
    e.add_int32(9, 2);
  });
  packet(1'700, [](protozero::pbf_writer& p) {
    p.add_uint32(58, 64);
    protozero::pbf_writer e(p, 11);
    e.add_int32(9, 1);
    e.add_string(23, "clock of the file");
  });
  std::istringstream owners(bytes);
  const auto found = owners_in_perfetto_trace(*owners.rdbuf());
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == base::kNoRank);
  CHECK(found[0].pid == 4242);
  Activity a{.pid = 4242};
  std::istringstream text(bytes);
  REQUIRE(parse_perfetto_trace(a, *text.rdbuf()));
  REQUIRE(a.slices.size() == 1);
  CHECK(a.calls[a.slices[0].call].name == "load");
  CHECK(a.slices[0].duration_ns == 500);
  CHECK(a.tracks[a.slices[0].track].number == 4243);
  CHECK(a.tracks[a.slices[0].track].name.find('\x1b') == std::string::npos);
  CHECK_FALSE(a.complete);
  CHECK(a.damage == "2 events are left out: an end without a begin, clock of the file");
}
