#include "launcher/machine/machine_watch.h"

#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/model/documents/document_text.h"
#include "launcher/machine/machine_helper.h"

#include <fmt/format.h>

#include <sys/epoll.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr size_t kLongestQuestion = 32 * 1024;  // fits into an empty pipe
constexpr double kSaveS = 60;
constexpr double kSaveLooksS = 5;  // those at who has the memory

size_t spells_of(const model::MachineHistory& history) {
  size_t out = 0;
  for (const model::MachineSeries& s : history.series) {
    out += s.spells.size();
  }
  return out;
}

}  // namespace

MachineWatch::~MachineWatch() {
  stop();
  helper_.wait_briefly();
}

void MachineWatch::start() {
  if (!std::exchange(begun_, true)) {
    timer_.after(setup_.first_s, [this] { tick(); });
  }
}

void MachineWatch::tick() {
  timer_.after(setup_.ranks().empty() ? setup_.first_s : setup_.interval_s, [this] { tick(); });
  if (helper_.pid() > 0 || launch()) {
    ask();
  }
}

bool MachineWatch::launch() {
  std::vector<std::string> words = machine_words(setup_.run_dir);
  words.insert(words.begin(), setup_.program);
  auto helper = HelperProcess::start(words, setup_.signal_mask, setup_.stderr_fd);
  if (!helper) {
    base::log_info("the host is not watched: {}", base::to_line(helper.error()));
    timer_.stop();
    return false;
  }
  helper_ = std::move(*helper);
  setup_.started(helper_.pid());
  if (!setup_.loop.add(helper_.output(), EPOLLIN, [this](uint32_t) { readable(); })) {
    helper_.kill();
    return false;
  }
  return true;
}

void MachineWatch::look() {
  if (helper_.pid() > 0 && !history_.empty()) {
    ask();
  }
}

void MachineWatch::ask() {
  const std::string line = ranks_line(setup_.ranks());
  if (!asked_ && helper_.output() >= 0 && line.size() <= kLongestQuestion) {
    asked_ = bool(base::write_all(helper_.input(), line));
  }
}

void MachineWatch::readable() {
  if (!helper_.read_lines(text_, kLongestLine, [this](std::string_view line) { take(line); })) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
}

void MachineWatch::take(std::string_view line) {
  if (const auto users = model::memory_users_from(line)) {
    history_.add(*users);
    if (base::ns_to_s(setup_.loop.now() - saved_) >= kSaveLooksS) {
      save();
    }
    return;
  }
  asked_ = false;
  const auto reading = model::machine_reading_from(line);
  if (!reading) {
    return;
  }
  history_.add(*reading, base::wall_ns());
  const bool news = spells_of(history_) != spells_saved_;
  if (news || history_.readings == 1 || base::ns_to_s(setup_.loop.now() - saved_) >= kSaveS) {
    save();
  }
}

void MachineWatch::save() {
  saved_ = setup_.loop.now();
  spells_saved_ = spells_of(history_);
  if (!history_.empty()) {
    setup_.storage.replace(fmt::format("{}/{}", setup_.run_dir, model::kMachineFile),
                           model::document_text(history_) + "\n");
  }
}

void MachineWatch::finish() {
  timer_.stop();
  if (helper_.output() >= 0) {
    readable();
  }
  save();
  stop();
}

void MachineWatch::stop() {
  if (helper_.output() >= 0) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
  helper_.close_input();
  helper_.kill();
}

bool MachineWatch::helper_ended(base::Pid pid, base::WaitStatus) {
  if (!is_helper(pid)) {
    return false;
  }
  if (helper_.output() >= 0) {
    readable();
  }
  helper_.forget();
  timer_.stop();  // a helper that failed once fails again
  return true;
}

}  // namespace xpurun::launcher
