#include "launcher/journal/journal.h"

#include "common/base/output/log.h"
#include "common/model/documents/document_text.h"

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

namespace {
constexpr double kWriteDelayS = 0.3;
}

Journal::Journal(EventLoop& loop, Storage& storage, model::RunDir dir, base::MonoNs started)
    : loop_(loop), storage_(storage), dir_(std::move(dir)), started_(started) {}

void Journal::changed() {
  if (!scheduled_) {
    scheduled_ = true;
    loop_.after(kWriteDelayS, [this] {
      if (scheduled_) {
        save_now();
      }
    });
  }
}

void Journal::processes_polled(std::vector<model::ProcessRecord> processes, int world_size) {
  manifest_.processes = std::move(processes);
  manifest_.world_size = world_size;
  if (loop_.now() - saved_ >= base::s_to_ns(kRefreshS)) {
    changed();
  }
}

void Journal::save_now() {
  scheduled_ = false;
  saved_ = loop_.now();
  manifest_.elapsed_s = elapsed_s();
  storage_.replace(dir_.run_json(), model::document_text(manifest_, 1), [this](const base::Status& written) {
    if (!written && !complained_) {
      complained_ = true;
      base::log_warn("cannot record the run, the job goes on: {}", base::to_line(written.error()));
    }
  });
}

model::CrashNotice* Journal::find_crash(base::Pid pid) {
  for (auto& crash : manifest_.crashes) {
    if (crash.pid == pid) {
      return &crash;
    }
  }
  return nullptr;
}

const model::Stall* Journal::open_stall() const {
  return model::current_stall(manifest_);
}

model::Stall* Journal::open_stall() {
  return const_cast<model::Stall*>(std::as_const(*this).open_stall());
}

model::Stall& Journal::add_stall(model::RankSet ranks, double since_s) {
  auto& all = manifest_.stalls;
  all.push_back({.n = all.empty() ? 1 : all.back().n + 1,
                 .ranks = std::move(ranks),
                 .at_s = elapsed_s(),
                 .since_s = since_s,
                 .asked_s = elapsed_s(),
                 .pending = true});
  changed();
  return all.back();
}

void Journal::drop_stall(int n) {
  std::erase_if(manifest_.stalls, [n](const model::Stall& s) { return s.n == n; });
  changed();
}

model::Stall* Journal::stall(int n) {
  const auto it = std::find_if(manifest_.stalls.begin(), manifest_.stalls.end(),
                               [n](const model::Stall& s) { return s.n == n; });
  return it == manifest_.stalls.end() ? nullptr : &*it;
}

}  // namespace xpurun::launcher
