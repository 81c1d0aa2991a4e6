#include "report/import/xpu_timer.h"

#include "common/base/strings.h"
#include "report/import/protobuf_reader.h"
#include "report/import/readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

namespace {

XpuFrame parse_frame(std::string_view bytes) {
  XpuFrame out;
  for (ProtobufReader r(bytes); r.next();) {
    if (r.number() == 1 && r.is_bytes()) {
      out.func = r.bytes();
    } else if (r.number() == 2 && r.is_bytes()) {
      out.file = r.bytes();
    }
  }
  return out;
}

XpuThread parse_native_thread(std::string_view bytes) {
  XpuThread out;
  for (ProtobufReader r(bytes); r.next();) {
    if (r.number() == 1) {
      out.tid = static_cast<uint32_t>(r.value());
    } else if (r.number() == 2) {
      out.name = r.bytes();
    } else if (r.number() == 3 && r.is_bytes()) {
      out.frames.push_back(parse_frame(r.bytes()));
    }
  }
  return out;
}

XpuThread parse_python_thread(std::string_view bytes) {
  XpuThread out;
  for (ProtobufReader r(bytes); r.next();) {
    switch (r.number()) {
      case 2:
        out.thread_id = r.value();
        break;
      case 3:
        out.name = r.bytes();
        break;
      case 4:
        out.tid = static_cast<uint32_t>(r.value());
        break;
      case 5:
        out.active = r.value() != 0;
        break;
      case 6:
        out.owns_gil = r.value() != 0;
        break;
      case 7:
        out.frames.push_back(parse_frame(r.bytes()));
        break;
      default:
        break;
    }
  }
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

// The two lists are of two moments: a thread's Python frames stand above its native ones, where no one can
// say between which.
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
  ProtobufReader r(bytes);
  while (r.next()) {
    switch (r.number()) {
      case 1:
        if (r.is_bytes()) {
          out.native.push_back(parse_native_thread(r.bytes()));
        }
        break;
      case 2:
        if (r.is_bytes()) {
          out.python.push_back(parse_python_thread(r.bytes()));
        }
        break;
      case 3:
        out.pid = static_cast<int32_t>(r.value());
        break;
      case 4:
        out.rank = static_cast<int32_t>(r.value());
        break;
      case 6:
      case 8:
        out.errors += r.bytes();
        break;
      case 11:
        out.state = r.is_bytes() ? std::string(r.bytes()) : out.state;
        break;
      default:
        break;
    }
  }
  if (!r.ok()) {
    out.damage = fmt::format("damaged or cut off at byte {} of {}", r.position(), bytes.size());
  }
  return out;
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
  // Innermost first: native frames are inside of what Python called.
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
