#include "launcher/supervise/handlers/notice_router.h"

namespace xpurun::launcher {

void NoticeRouter::received(const wire::Notice& notice, base::Pid pid, base::Tid tid) {
  const bool known = parts_.table.find(pid) != nullptr;
  const bool python = (notice.flags & wire::kNoticePython) != 0;
  if (python) {
    parts_.table.note_python(pid);
  }
  const bool has_ended = parts_.job.has_ended();
  const Answer answer = [this, pid](int descriptor) { hooks_.answer(pid, descriptor); };
  switch (static_cast<wire::NoticeKind>(notice.kind)) {
    case wire::NoticeKind::crash:
      hooks_.crashed(notice, pid, tid);
      return;
    // After the end of the command, no new segment is handed out: its owner would not be drained any more.
    case wire::NoticeKind::attach:
      has_ended ? answer(-1) : hooks_.attach_timing(pid, answer);
      return;
    case wire::NoticeKind::python_attach:
      has_ended ? answer(-1) : hooks_.attach_spans(pid, SpanWriter::python, answer);
      return;
    case wire::NoticeKind::marks_attach:
      has_ended ? answer(-1) : hooks_.attach_spans(pid, SpanWriter::marks, answer);
      return;
    case wire::NoticeKind::mpi_attach:
      has_ended ? answer(-1) : hooks_.attach_mpi(pid, answer);
      return;
    case wire::NoticeKind::heap_attach:
      has_ended ? answer(-1) : hooks_.attach_heap(pid, answer);
      return;
    case wire::NoticeKind::capture_attach:
      hooks_.attach_capture(pid, answer);
      return;
    default:
      break;
  }
  // A walk between fork and exec has seen the launcher's environment, in which the process is no rank. The
  // next walk may be a minute away, and the process may be dead by then.
  const bool after_exec = notice.kind == static_cast<uint16_t>(wire::NoticeKind::hello);
  if ((!known || after_exec) && !has_ended) {
    hooks_.started(pid);
    if (python) {
      parts_.table.note_python(pid);
    }
  }
}

}  // namespace xpurun::launcher
