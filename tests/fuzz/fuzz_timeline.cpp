// Input of the time line, by the first byte: 'j' JSON of torch.profiler, 'x' a trace of xpu_timer (the names
// of its kernels behind a byte 0xff), 'm' matmuls of xpu_timer, 'p' a Perfetto trace, 'c' an execution trace
// of Chakra, 'n' one of PyTorch, 's' records of a span file, else records of an event file. What is read must
// be in order and go through both writers.
#include "common/base/packing.h"
#include "common/model/timing/event_encoder.h"
#include "common/model/timing/event_records.h"
#include "common/model/timing/span_encoder.h"
#include "common/model/timing/span_file.h"
#include "report/events/event_activity.h"
#include "report/events/foreign/execution_trace.h"
#include "report/events/foreign/perfetto/trace.h"
#include "report/events/foreign/torch_profiler.h"
#include "report/events/foreign/xpu_timer/matmuls.h"
#include "report/events/foreign/xpu_timer/trace.h"
#include "report/events/groups.h"
#include "report/events/job_clocks.h"
#include "report/timeline/output/chrome_writer.h"
#include "report/timeline/output/perfetto_writer.h"
#include "report/timeline/span_activity.h"

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sstream>

using namespace xpurun;
using namespace xpurun::report;

namespace {

void expect(bool is_right) {
  if (!is_right) {
    std::abort();
  }
}

std::string framed(std::string header, std::string_view records) {
  model::records::put_fixed(header, records.size(), 4);
  model::records::put_fixed(header, base::crc32(records), 4);
  return header + std::string(records);
}

void read(Activity& out, std::string_view text) {
  const char form = text.empty() ? 'e' : text.front();
  const std::string_view rest = text.substr(text.empty() ? 0 : 1);
  if (form == 'j') {
    std::istringstream json{std::string(rest)};
    (void)parse_torch_trace(out, json);
  } else if (form == 'x') {
    const size_t end = rest.find('\xff');
    (void)parse_xpu_timer_trace(out, rest.substr(0, end),
                                end == std::string_view::npos ? "" : rest.substr(end + 1));
  } else if (form == 'm') {
    (void)owners_in_xpu_timer_matmuls(rest);
    (void)parse_xpu_timer_matmuls(out, rest);
  } else if (form == 'p') {
    std::istringstream owners{std::string(rest)};
    (void)owners_in_perfetto_trace(*owners.rdbuf());
    std::istringstream trace{std::string(rest)};
    (void)parse_perfetto_trace(out, *trace.rdbuf());
  } else if (form == 'c') {
    (void)parse_chakra_trace(out, rest);
  } else if (form == 'n') {
    std::istringstream json{std::string(rest)};
    (void)parse_execution_trace(out, json);
  } else if (form == 's') {
    if (const auto file =
            model::parse_span_file(framed(model::SpanEncoder::header({.rank = 1, .wall_ns = 5}), rest))) {
      add_spans(out, *file);
    }
  } else if (const auto file = model::parse_event_file(
                 framed(model::EventEncoder::header({.rank = 1, .wall_ns = 5}), text))) {
    add_events(out, *file);
  }
}

void write(const Activity& activity) {
  auto out = OutputFile::to(base::UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC)), Compression::none);
  expect(out.has_value());
  PerfettoWriter perfetto(*out, 1);
  perfetto.write(activity, "rank 1", -7);
  expect(perfetto.counts().slices == activity.slices.size());
  expect(write_chrome(*out, activity, "rank 1", {.shift_ns = -7}) == activity.slices.size());
  expect(out->finish().has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Activity activity;
  activity.rank = 1;
  read(activity, {reinterpret_cast<const char*>(data), size});
  put_in_order(activity);
  link_launches(activity);
  int64_t last = 0;
  for (const Slice& s : activity.slices) {
    expect(s.begin_ns >= last && s.duration_ns >= 0 && s.end_ns() >= s.begin_ns);
    expect(s.call < activity.calls.size() && s.track < activity.tracks.size() &&
           s.extra < activity.extras.size());
    last = s.begin_ns;
  }
  JobClocks clocks;
  clocks.add(activity);
  activity.host = "other";
  clocks.add(activity);
  clocks.solve();
  GroupFinder groups;
  groups.add(activity);
  expect(groups.families().empty());
  write(activity);
  return 0;
}
