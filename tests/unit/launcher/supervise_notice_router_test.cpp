#include "launcher/supervise/handlers/notice_router.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <utility>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank0;
using test::Told;
using wire::NoticeKind;

namespace {

constexpr base::Pid kStranger = 5000999;

struct RouterScene : test::JobScene {
  JobState job;
  NoticeRouter router{
      {table, job},
      {.started = [this](base::Pid pid) { tell(fmt::format("started {}", pid)); },
       .crashed = [this](const wire::Notice&, base::Pid,
                         base::Tid tid) { tell(fmt::format("crash {}", tid)); },
       .attach_timing = [this](base::Pid, const NoticeRouter::Answer& answer) { attach("timing", answer); },
       .attach_spans =
           [this](base::Pid, SpanWriter writer, const NoticeRouter::Answer& answer) {
             attach(writer == SpanWriter::python ? "python" : "marks", answer);
           },
       .attach_capture = [this](base::Pid, const NoticeRouter::Answer& answer) { attach("capture", answer); },
       .answer = [this](base::Pid, int descriptor) { tell(fmt::format("answer {}", descriptor)); }}};

  void attach(const std::string& what, const NoticeRouter::Answer& answer) {
    tell(what);
    answer(7);
  }
  void send(NoticeKind kind, base::Pid pid = kRank0, uint32_t flags = 0) {
    wire::Notice notice{};
    notice.kind = static_cast<uint16_t>(kind);
    notice.flags = flags;
    router.received(notice, pid, 33);
  }
};

}  // namespace

TEST_CASE("each notice goes to the part that it concerns") {
  RouterScene s;
  s.send(NoticeKind::crash);
  CHECK(s.told() == Told{"crash 33"});
  const std::pair<NoticeKind, const char*> attaching[] = {{NoticeKind::attach, "timing"},
                                                          {NoticeKind::python_attach, "python"},
                                                          {NoticeKind::marks_attach, "marks"},
                                                          {NoticeKind::capture_attach, "capture"}};
  for (const auto& [kind, part] : attaching) {
    s.send(kind);
    CHECK(s.told() == Told{part, "answer 7"});
  }
  s.send(NoticeKind::hello);
  CHECK(s.told() == Told{fmt::format("started {}", kRank0)});
  s.send(static_cast<NoticeKind>(999));
  CHECK(s.told().empty());
  s.send(NoticeKind::hello, kStranger);
  CHECK(s.told() == Told{fmt::format("started {}", kStranger)});
  s.send(static_cast<NoticeKind>(999), kStranger);  // of a later version
  CHECK(s.told() == Told{fmt::format("started {}", kStranger)});
}

TEST_CASE("after the end of the command nothing is attached, but crashes are heard") {
  RouterScene s;
  s.job.phase = JobPhase::settling;
  for (const NoticeKind kind : {NoticeKind::attach, NoticeKind::python_attach, NoticeKind::marks_attach}) {
    s.send(kind);
    CHECK(s.told() == Told{"answer -1"});
  }
  s.send(NoticeKind::hello, kStranger);
  CHECK(s.told().empty());
  s.send(NoticeKind::crash);
  CHECK(s.told() == Told{"crash 33"});
}

TEST_CASE("a process that says so is a Python process") {
  RouterScene s;
  s.table.find(kRank0)->record.python = false;
  s.send(NoticeKind::hello, kRank0, wire::kNoticePython);
  CHECK(s.table.find(kRank0)->record.python);
}
