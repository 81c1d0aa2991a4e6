#include "report/import/xpu_timer.h"

#include "common/base/strings.h"
#include "report/import/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <protozero/pbf_reader.hpp>

namespace xpurun::report {

namespace {

using protozero::data_view;
using protozero::pbf_reader;
constexpr auto kVarint = protozero::pbf_wire_type::varint;
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;

constexpr uint32_t field(protozero::pbf_tag_type number, protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}

std::string_view text_of(pbf_reader& r) {
  const data_view view = r.get_view();
  return {view.data(), view.size()};
}

// `read` consumes the current field after checking its number and type. Returns where the bytes are damaged
// or truncated; empty if they are complete.
template <typename Read>
std::optional<size_t> for_each_field(data_view bytes, Read&& read) {
  pbf_reader r(bytes);
  try {
    while (r.next()) {
      if (!read(r, r.tag_and_type())) {
        r.skip();
      }
    }
  } catch (const protozero::exception&) {
    return bytes.size() - r.length();
  }
  return std::nullopt;
}

XpuFrame parse_frame(data_view bytes) {
  XpuFrame out;
  for_each_field(bytes, [&](pbf_reader& r, uint32_t tag) {
    switch (tag) {
      case field(1, kBytes):
        out.func = text_of(r);
        return true;
      case field(2, kBytes):
        out.file = text_of(r);
        return true;
      default:
        return false;
    }
  });
  return out;
}

XpuThread parse_native_thread(data_view bytes) {
  XpuThread out;
  for_each_field(bytes, [&](pbf_reader& r, uint32_t tag) {
    switch (tag) {
      case field(1, kVarint):
        out.tid = r.get_uint32();
        return true;
      case field(2, kBytes):
        out.name = text_of(r);
        return true;
      case field(3, kBytes):
        out.frames.push_back(parse_frame(r.get_view()));
        return true;
      default:
        return false;
    }
  });
  return out;
}

XpuThread parse_python_thread(data_view bytes) {
  XpuThread out;
  for_each_field(bytes, [&](pbf_reader& r, uint32_t tag) {
    switch (tag) {
      case field(2, kVarint):
        out.thread_id = r.get_uint64();
        return true;
      case field(3, kBytes):
        out.name = text_of(r);
        return true;
      case field(4, kVarint):
        out.tid = r.get_uint32();
        return true;
      case field(5, kVarint):
        out.active = r.get_bool();
        return true;
      case field(6, kVarint):
        out.owns_gil = r.get_bool();
        return true;
      case field(7, kBytes):
        out.frames.push_back(parse_frame(r.get_view()));
        return true;
      default:
        return false;
    }
  });
  return out;
}

model::Frame python_frame(const XpuFrame& f) {
  model::Frame out = frame_from_label(fmt::format("{} ({})", base::sanitize(f.func), base::sanitize(f.file)));
  out.kind = model::FrameKind::python;
  return out;
}

model::Frame native_frame(const XpuFrame& f) {
  model::Frame out;
  out.func = base::sanitize(f.func);
  const std::string file = base::sanitize(f.file);
  const size_t colon = file.rfind(':');
  const auto line =
      colon == std::string::npos ? std::nullopt : base::parse_int(std::string_view(file).substr(colon + 1));
  if (line && *line > 0 && *line < INT32_MAX) {
    out.file = file.substr(0, colon);
    out.line = static_cast<int>(*line);
  } else if (file != "??") {
    out.module = base::base_name(file);
  }
  return out;
}

// The two lists were taken at different times. A thread's Python frames are put outside its native ones,
// because their true nesting is unknown.
void add_thread(model::ProcessStacks& p, std::map<uint32_t, size_t>& by_tid, const XpuThread& from,
                bool python) {
  const auto [at, is_new] = by_tid.emplace(from.tid, p.threads.size());
  if (is_new || from.tid == 0) {
    at->second = p.threads.size();
    p.threads.push_back({.tid = static_cast<base::Tid>(from.tid)});
  }
  model::ThreadStack& t = p.threads[at->second];
  std::vector<model::Frame> frames;
  for (const XpuFrame& f : from.frames) {
    frames.push_back(python ? python_frame(f) : native_frame(f));
  }
  if (python) {
    t.python_name = base::sanitize(from.name);
    t.thread_id = from.thread_id;
    t.state = from.active ? 'R' : t.state;
    t.gil = from.owns_gil ? model::GilState::holder : model::GilState::none;
  } else {
    t.comm = base::sanitize(from.name);
  }
  t.frames.insert(t.frames.end(), std::make_move_iterator(frames.begin()),
                  std::make_move_iterator(frames.end()));
}

}  // namespace

XpuStacktrace parse_xpu_stacktrace(std::string_view bytes) {
  XpuStacktrace out;
  const auto damage = for_each_field({bytes.data(), bytes.size()}, [&](pbf_reader& r, uint32_t tag) {
    switch (tag) {
      case field(1, kBytes):
        out.native.push_back(parse_native_thread(r.get_view()));
        return true;
      case field(2, kBytes):
        out.python.push_back(parse_python_thread(r.get_view()));
        return true;
      case field(3, kVarint):
        out.pid = r.get_int32();
        return true;
      case field(4, kVarint):
        out.rank = r.get_int32();
        return true;
      case field(6, kBytes):
      case field(8, kBytes):
        out.errors += text_of(r);
        return true;
      case field(11, kBytes):
        out.state = text_of(r);
        return true;
      default:
        return false;
    }
  });
  if (damage) {
    out.damage = fmt::format("damaged or cut off at byte {} of {}", *damage, bytes.size());
  }
  return out;
}

namespace {

// The stack of the first launch of a kernel: an entry of the map of PythonStackInTimeline.
model::ThreadStack launch_of(data_view entry) {
  model::ThreadStack out;
  std::string kernel;
  for_each_field(entry, [&](pbf_reader& r, uint32_t tag) {
    if (tag == field(1, kBytes)) {
      kernel = base::sanitize(text_of(r));
      return true;
    }
    if (tag != field(2, kBytes)) {
      return false;
    }
    for_each_field(r.get_view(), [&](pbf_reader& frames, uint32_t inner) {
      if (inner != field(1, kBytes)) {
        return false;
      }
      const XpuFrame f = parse_frame(frames.get_view());
      out.frames.push_back(
          {.kind = model::FrameKind::python, .func = base::sanitize(f.func), .file = base::sanitize(f.file)});
      return true;
    });
    return true;
  });
  // The outermost function comes first in the file.
  out.frames.push_back({.kind = model::FrameKind::gpu, .func = kernel});
  std::reverse(out.frames.begin(), out.frames.end());
  return out;
}

}  // namespace

base::Result<Imported> read_xpu_timer_launches(std::string_view bytes, const ImportHint& hint) {
  model::ProcessStacks process = imported_process(hint);
  const auto damage = for_each_field(data_view(bytes.data(), bytes.size()), [&](pbf_reader& r, uint32_t tag) {
    if (tag != field(1, kBytes)) {
      return false;
    }
    process.threads.push_back(launch_of(r.get_view()));
    process.threads.back().tid = static_cast<base::Tid>(process.threads.size());
    process.threads.back().main = true;
    return true;
  });
  std::vector<std::string> notes;
  if (damage) {
    notes.push_back(fmt::format("damaged or cut off at byte {} of {}", *damage, bytes.size()));
  }
  return only_process(std::move(process), std::move(notes));
}

base::Result<Imported> read_xpu_timer(std::string_view bytes, const ImportHint& hint) {
  const XpuStacktrace trace = parse_xpu_stacktrace(bytes);
  if (!trace.damage.empty() && trace.native.empty() && trace.python.empty()) {
    return base::fail(trace.damage);
  }
  Imported out;
  model::ProcessStacks p = imported_process(hint);
  p.pid = static_cast<base::Pid>(trace.pid);
  std::map<uint32_t, size_t> by_tid;
  // Innermost first: native frames are inside the Python frames that called them.
  for (const XpuThread& t : trace.native) {
    add_thread(p, by_tid, t, false);
  }
  for (const XpuThread& t : trace.python) {
    add_thread(p, by_tid, t, true);
  }
  choose_main_thread(p);
  if (!p.threads.empty() && !trace.state.empty() && p.threads.front().state == '?') {
    p.threads.front().state = trace.state.front();
  }
  if (p.threads.empty()) {
    p.status = model::DumpStatus::failed;
    p.reason = trace.state.empty()
                   ? "xpu_timer took no stacks"
                   : fmt::format("xpu_timer took no stacks, state {}", base::sanitize(trace.state));
  }
  for (const std::string& note : {trace.damage, base::sanitize(trace.errors.substr(0, 200))}) {
    if (!note.empty()) {
      out.notes.push_back(note);
    }
  }
  out.processes.push_back(std::move(p));
  return out;
}

}  // namespace xpurun::report
