#include "report/diagnosis/rules/storage.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/stacks/file_system.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::ThreadStack;

namespace {

struct Blocked {
  const ThreadStack* thread = nullptr;  // null: none
  base::Pid helper = 0;                 // 0: a thread of the rank itself
  bool main = false;                    // the thread that decided the state of the rank
};

Blocked blocked_thread(const Scene& scene, const RankView& v) {
  if (v.thread != nullptr && waits_for_storage(*v.thread)) {
    return {.thread = v.thread, .main = true};
  }
  if (v.state != RankState::stuck) {
    return {};
  }
  const auto helper = awaited_helper(scene, v);
  if (helper && helper->stacks != nullptr) {
    const auto& threads = helper->stacks->threads;
    const auto it = std::find_if(threads.begin(), threads.end(), waits_for_storage);
    if (it != threads.end()) {
      return {.thread = &*it, .helper = helper->pid};
    }
  }
  if (v.waits_locally() && v.stacks != nullptr) {
    const auto& threads = v.stacks->threads;
    const auto it = std::find_if(threads.begin(), threads.end(), waits_for_storage);
    if (it != threads.end()) {
      return {.thread = &*it};
    }
  }
  return {};
}

}  // namespace

bool waits_for_storage(const ThreadStack& thread) {
  const bool other_end = thread.wchan.find("pipe") != std::string::npos ||
                         thread.wchan.find("fifo") != std::string::npos || thread.wchan == "wait_for_partner";
  return !model::is_virtual(thread.file_system) && thread.lock.empty() && !other_end &&
         (thread.state == 'D' || model::is_served(thread.file_system));
}

std::string storage_clause(const Scene& scene, const RankView& v) {
  const Blocked found = blocked_thread(scene, v);
  if (found.thread == nullptr) {
    return {};
  }
  const ThreadStack& t = *found.thread;
  const std::string what = tr("{}() of {}", base::sanitize(t.syscall), base::sanitize(t.target));
  const std::string who = found.helper > 0 ? tr("{} in pid {}", what, found.helper)
                          : found.main     ? what
                                           : tr("{} in its {}", what, thread_words(t));
  const std::string requests =
      t.file_system.unanswered > 0
          ? tr(", whose server has not answered {} requests", t.file_system.unanswered)
          : std::string();
  return tr("; {} waits for the file system {}{}", who, file_system_words(t.file_system), requests);
}

model::NextStep storage_advice(const Scene& scene, const RankView& v) {
  const Blocked found = blocked_thread(scene, v);
  if (found.thread == nullptr) {
    return {};
  }
  const model::FileSystem& fs = found.thread->file_system;
  return {.text = model::is_served(fs)
                      ? tr("check whether the server of {} answers", base::sanitize(fs.mount))
                      : tr("check the disk below {}", base::sanitize(fs.mount)),
          .command = fmt::format("timeout 5 stat -f {}", base::shell_quote(fs.mount))};
}

}  // namespace xpurun::report
