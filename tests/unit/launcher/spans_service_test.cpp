// When spans reach files and the consumer, on the simulated loop.
#include "common/base/os/temporary_directory.h"
#include "common/model/timing/span_file.h"
#include "launcher/spans/span_service.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <sys/mman.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;

namespace {

// The end of a process that runs Python.
class PythonMemory {
 public:
  explicit PythonMemory(int descriptor)
      : memory_(static_cast<wire::PythonSegment*>(::mmap(
            nullptr, sizeof(wire::PythonSegment), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~PythonMemory() { ::munmap(memory_, sizeof(wire::PythonSegment)); }
  PythonMemory(const PythonMemory&) = delete;
  PythonMemory& operator=(const PythonMemory&) = delete;

  void write(uint64_t begin_ns, model::Stage stage = model::Stage::data, uint8_t flags = 0) {
    ++written_;
    memory_->spans[(written_ - 1) % wire::kPythonSpans] = {.number = written_,
                                                           .begin_ns = begin_ns,
                                                           .duration_ns = 5,
                                                           .cpu_ns = -1,
                                                           .sequence = 3,
                                                           .bytes = 4,
                                                           .stage = static_cast<uint8_t>(stage),
                                                           .flags = flags};
  }
  wire::PythonSegment* memory() { return memory_; }
  bool is_asked() const { return memory_->records_spans != 0; }

 private:
  wire::PythonSegment* memory_;
  uint64_t written_ = 0;
};

struct ServiceScene : test::JobScene {
  base::TemporaryDirectory dir = *base::TemporaryDirectory::create("spans-service");
  PythonSegments segments;
  bool wanted = true;
  MpiSegments mpi;
  CallPlaces places{{.loop = loop, .started = [](base::Pid) {}}};
  SpanService spans{{loop, storage, table, segments, mpi, places},
                    dir.path(),
                    "node-a",
                    {.span_bytes = 1 << 20, .function_bytes = 1 << 20},
                    [this] { return wanted; }};
  std::vector<std::pair<base::Rank, size_t>> drained;  // rank and number of spans of each call

  ServiceScene() {
    spans.on_spans([this](const SpanSource& who, std::span<const model::Span> found) {
      drained.emplace_back(who.rank, found.size());
    });
  }
  std::unique_ptr<PythonMemory> attach(base::Pid pid, SpanWriter writer = SpanWriter::python) {
    spans.before_attach(pid);
    const auto descriptor = segments.attach(pid, writer);
    REQUIRE(descriptor);
    auto out = std::make_unique<PythonMemory>(*descriptor);
    segments.sent(pid);
    spans.attached();
    return out;
  }
  std::vector<std::pair<base::Rank, size_t>> take() { return std::exchange(drained, {}); }
  size_t written(base::Rank rank, int file) {
    const auto read = model::load_span_file(fmt::format("{}/ranks/{}/spans-{}.xsp", dir.path(), rank, file));
    return read ? read->spans.size() : 0;
  }
};

using Drained = std::vector<std::pair<base::Rank, size_t>>;

}  // namespace

TEST_CASE("spans are taken ten times a second and written by a flush") {
  ServiceScene s;
  const auto python = s.attach(kRank0);
  python->write(1);
  python->write(2);
  s.run_for(0.15);
  CHECK(s.take() == Drained{{0, 2}});
  python->write(3);
  s.run_for(0.1);
  CHECK(s.take() == Drained{{0, 1}});
  s.spans.flush();
  CHECK(s.written(0, 1) == 3);
}

TEST_CASE("the file names the backend of torch's default process group, once it is known") {
  ServiceScene s;
  const auto python = s.attach(kRank0);
  const auto backend = [&] {
    python->write(1);
    s.spans.flush();
    const auto read = model::load_span_file(s.dir.path() + "/ranks/0/spans-1.xsp");
    return read ? read->backend : "unreadable";
  };
  CHECK(backend().empty());
  constexpr uint32_t kLength = 4;
  std::memcpy(python->memory()->text + 8, &kLength, sizeof kLength);
  std::memcpy(python->memory()->text + 12, "gloo", kLength);
  python->memory()->group[0].backend = 8;
  python->memory()->text_bytes = 64;
  CHECK(backend().empty());  // there is no group yet
  python->memory()->groups = 1;
  CHECK(backend() == "gloo");
}

TEST_CASE("the process is told whether spans are wanted") {
  ServiceScene s;
  s.wanted = false;
  const auto python = s.attach(kRank0);
  CHECK_FALSE(python->is_asked());
  s.wanted = true;
  s.run_for(0.15);
  CHECK(python->is_asked());
}

TEST_CASE("what an ended rank left is read once, and then nothing runs") {
  ServiceScene s;
  const auto python = s.attach(kRank0);
  s.run_for(0.15);
  python->write(1);
  s.table.mark_dead(kRank0);
  s.run_for(0.1);
  CHECK(s.take() == Drained{{0, 1}});
  CHECK(s.written(0, 1) == 1);
  python->write(2);
  s.run_for(1);
  s.spans.flush();
  CHECK(s.take().empty());
}

TEST_CASE("a process without a rank has no spans, and a new process of a rank a new file") {
  ServiceScene s;
  const auto other = s.attach(test::kCommand);
  other->write(1);
  const auto first = s.attach(kRank0);
  first->write(1);
  const auto second = s.attach(kRank0);  // takes what the first has left
  CHECK(s.take() == Drained{{0, 1}});
  second->write(2);
  second->write(3);
  s.run_for(0.15);
  CHECK(s.take() == Drained{{0, 2}});
  s.spans.flush();
  CHECK(s.written(0, 1) == 1);
  CHECK(s.written(0, 2) == 2);
}

TEST_CASE("calls of traced functions go to files of their own, and not to the consumer") {
  ServiceScene s;
  const auto python = s.attach(kRank0);
  python->write(1);
  python->write(2, model::Stage::function);
  python->write(3, model::Stage::function, wire::kShortCalls);
  s.run_for(0.15);
  CHECK(s.take() == Drained{{0, 1}});
  python->write(4, model::Stage::function);
  s.run_for(0.1);
  CHECK(s.take().empty());
  s.spans.flush();
  CHECK(s.written(0, 1) == 1);
  const auto file = model::load_span_file(fmt::format("{}/ranks/0/functions-1.xsp", s.dir.path()));
  REQUIRE(file);
  CHECK(file->spans.size() == 2);
  REQUIRE(file->short_calls.size() == 1);
  CHECK(file->short_calls[0].calls == 3);
  CHECK(file->short_calls[0].total_ns == 4);
}

TEST_CASE("a span that was lost is counted once") {
  ServiceScene s;
  const auto python = s.attach(kRank0);
  for (uint64_t i = 0; i < wire::kPythonSpans + 10; ++i) {
    python->write(1 + i, i % 2 == 0 ? model::Stage::data : model::Stage::function);
  }
  s.run_for(0.15);
  s.spans.flush();
  const auto stages = model::load_span_file(fmt::format("{}/ranks/0/spans-1.xsp", s.dir.path()));
  const auto functions = model::load_span_file(fmt::format("{}/ranks/0/functions-1.xsp", s.dir.path()));
  REQUIRE(stages);
  REQUIRE(functions);
  CHECK(stages->lost + functions->lost == 10);
}

TEST_CASE("marks of a library go with the spans of Python, in one file, in the order of their ends") {
  ServiceScene s;
  std::vector<int64_t> begins;
  s.spans.on_spans([&](const SpanSource&, std::span<const model::Span> found) {
    for (const model::Span& span : found) {
      begins.push_back(span.begin_ns);
    }
  });
  const auto marks = s.attach(kRank0, SpanWriter::marks);
  marks->write(10, model::Stage::mark);
  s.run_for(0.15);
  const auto python = s.attach(kRank0);
  python->write(20);
  marks->write(30, model::Stage::mark);
  python->write(40);
  s.run_for(0.1);
  CHECK(begins == std::vector<int64_t>{10, 20, 30, 40});
  CHECK(marks->is_asked());
  s.spans.flush();
  CHECK(s.written(0, 1) == 4);
  CHECK(s.written(0, 2) == 0);
  // Another program in the same process.
  const auto next = s.attach(kRank0, SpanWriter::marks);
  next->write(50, model::Stage::mark);
  s.run_for(0.15);
  s.spans.flush();
  CHECK(s.written(0, 2) == 1);
}

TEST_CASE("Python processes learn of a change of the traced functions, later ones too") {
  ServiceScene s;
  const auto early = s.attach(kRank0);
  const auto marks = s.attach(kRank0, SpanWriter::marks);
  CHECK(s.segments.follows_list(kRank0));
  REQUIRE(s.segments.trace_functions({.names = "a:f,b:g", .least_s = 20e-6}));
  CHECK_FALSE(s.segments.follows_list(kRank0));
  const auto late = s.attach(test::kRank1);
  for (wire::PythonSegment* memory : {early->memory(), late->memory()}) {
    CHECK(memory->traced_change == 1);
    CHECK(std::string(memory->traced, memory->traced_bytes) == "a:f,b:g");
    CHECK(memory->traced_least_ns == 20000);
  }
  CHECK(marks->memory()->traced_change == 0);
  early->memory()->traced_taken = 1;
  CHECK(s.segments.follows_list(kRank0));
  CHECK_FALSE(s.segments.follows_list(test::kRank1));
  for (int i = 0; i < 600; ++i) {
    REQUIRE(s.segments.trace_functions({.names = std::string(wire::kTracedBytes, 'x'), .least_s = 0}));
    CHECK(early->memory()->traced_change % 256 != 0);
  }
  CHECK_FALSE(s.segments.trace_functions({.names = std::string(wire::kTracedBytes + 1, 'x'), .least_s = 0}));
}
