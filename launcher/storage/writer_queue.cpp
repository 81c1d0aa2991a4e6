#include "launcher/storage/writer_queue.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/os/pidfd.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace xpurun::launcher {

namespace {

// The time in seconds that a process needs to end after its socket is closed.
constexpr double kReapS = 0.1;
// A stall of this length is reported to the user, once per stall.
constexpr double kComplainS = 5;

size_t size_of(const FileOperation& operation) {
  return operation.path.size() + operation.data.size();
}

bool is_append(FileAction action) {
  return action == FileAction::append || action == FileAction::append_or_create;
}

}  // namespace

WriterQueue::WriterQueue(EventLoop& loop, WriterProcess writer, size_t most_bytes)
    : loop_(loop), writer_(std::move(writer)), most_bytes_(most_bytes), last_answer_(base::mono_ns()) {
  watch();
}

WriterQueue::~WriterQueue() {
  for (const auto& [id, barrier] : barriers_) {
    loop_.cancel(barrier.timer);
  }
  if (!dead_) {
    loop_.remove(writer_.socket());
  }
}

void WriterQueue::watch() {
  const uint32_t wanted = queue_.empty() && outgoing_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  if (wanted == std::exchange(watched_, wanted)) {
    return;
  }
  if (!loop_.add(writer_.socket(), wanted, [this](uint32_t) {
        receive();
        send_some();
      })) {
    writer_died();
  }
}

// True if the operation was merged into a queued operation.
bool WriterQueue::join(FileOperation& operation, const Done& done) {
  if (operation.action == FileAction::replace) {
    // Merges only with the last operation on the file: after a removal the text must be written again.
    const auto same = std::find_if(queue_.rbegin(), queue_.rend(),
                                   [&](const Item& item) { return item.operation.path == operation.path; });
    if (same == queue_.rend() || same->operation.action != FileAction::replace) {
      return false;
    }
    waiting_bytes_ += operation.data.size();
    waiting_bytes_ -= same->operation.data.size();
    same->operation.data = std::move(operation.data);
    if (same->done && done) {
      same->done = [first = std::move(same->done), done](const base::Status& status) {
        first(status);
        done(status);
      };
    } else if (done) {
      same->done = done;
    }
    return true;
  }
  const bool joins = is_append(operation.action) && !done && !queue_.empty() && !queue_.back().done &&
                     queue_.back().operation.action == operation.action &&
                     queue_.back().operation.path == operation.path &&
                     waiting_bytes_ + operation.data.size() <= most_bytes_;
  if (joins) {
    waiting_bytes_ += operation.data.size();
    queue_.back().operation.data += operation.data;
  }
  return joins;
}

void WriterQueue::submit(FileOperation operation, Done done) {
  failed_.forget(operation);
  if (!dead_ && join(operation, done)) {
    return;
  }
  if (dead_ || waiting_bytes_ + size_of(operation) > most_bytes_) {
    const base::Status failure = base::fail(dead_ ? problem() : "the disk does not keep up");
    ++dropped_;
    failed_.note(std::move(operation), failure);
    if (done) {
      loop_.after(0, [done = std::move(done), failure] { done(failure); });
    }
    return;
  }
  waiting_bytes_ += size_of(operation);
  queue_.push_back({.number = next_++, .operation = std::move(operation), .done = std::move(done)});
  if (in_flight_.empty() && queue_.size() == 1) {
    last_answer_ = base::mono_ns();
  }
  if (!complaint_timer_.running()) {
    complaint_timer_.after(kComplainS, [this] { complain_if_stalled(); });
  }
  send_some();
}

void WriterQueue::send_some() {
  while (!dead_ && (!outgoing_.empty() || !queue_.empty())) {
    if (outgoing_.empty()) {
      Item item = std::move(queue_.front());
      queue_.pop_front();
      waiting_bytes_ -= size_of(item.operation);
      outgoing_ = encode(item.number, item.operation);
      // Only the text of a replacement is needed again, for another try.
      if (item.operation.action != FileAction::replace) {
        item.operation.data.clear();
      }
      in_flight_.emplace(item.number, std::move(item));
    }
    const ssize_t n =
        ::send(writer_.socket(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      break;
    }
    if (n < 0) {
      writer_died();
      return;
    }
    outgoing_.erase(0, static_cast<size_t>(n));
  }
  if (!dead_) {
    watch();
  }
}

void WriterQueue::receive() {
  std::array<char, 16384> chunk{};
  while (!dead_) {
    const ssize_t n = ::recv(writer_.socket(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0 && errno == EAGAIN) {
      break;
    }
    if (n <= 0) {
      // Answers that arrived before the end still count.
      take_answers();
      writer_died();
      return;
    }
    incoming_.append(chunk.data(), static_cast<size_t>(n));
  }
  take_answers();
}

void WriterQueue::take_answers() {
  while (const auto answer = take_answer(incoming_)) {
    answered(*answer);
  }
  reach_barriers();
}

void WriterQueue::answered(const NumberedAnswer& answer) {
  last_answer_ = base::mono_ns();
  answered_ = answer.number;
  complained_ = false;
  auto node = in_flight_.extract(answer.number);
  if (node.empty()) {
    return;
  }
  Item& item = node.mapped();
  const base::Status status = answer.error ? base::Status(base::fail(*answer.error)) : base::Status();
  if (!has_newer(item.operation)) {
    failed_.note(std::move(item.operation), status);
  }
  if (item.done) {
    item.done(status);
  }
}

// If a later text for the same file is queued, the result of this operation does not matter.
bool WriterQueue::has_newer(const FileOperation& operation) const {
  const auto same = [&](const Item& item) {
    return item.operation.action == operation.action && item.operation.path == operation.path;
  };
  return std::any_of(queue_.begin(), queue_.end(), same) ||
         std::any_of(in_flight_.begin(), in_flight_.end(),
                     [&](const auto& entry) { return same(entry.second); });
}

void WriterQueue::writer_died() {
  if (dead_) {
    return;
  }
  dead_ = true;
  loop_.remove(writer_.socket());
  outgoing_.clear();
  waiting_bytes_ = 0;
  std::vector<Item> lost;
  for (auto& [number, item] : in_flight_) {
    lost.push_back(std::move(item));
  }
  in_flight_.clear();
  std::move(queue_.begin(), queue_.end(), std::back_inserter(lost));
  queue_.clear();
  dropped_ += lost.size();
  const base::Status failure = base::fail(problem());
  for (Item& item : lost) {
    if (item.done) {
      loop_.after(0, [done = std::move(item.done), failure] { done(failure); });
    }
  }
  for (const auto& [id, barrier] : barriers_) {
    loop_.after(0, [this, id = id] { settle(id, Written::not_all); });
  }
}

std::string WriterQueue::problem() const {
  return dead_ ? "the writer of the run directory has died" : failed_.problem();
}

void WriterQueue::when_written(double patience_s, std::function<void(Written)> then) {
  for (FileOperation& operation : failed_.to_retry()) {
    submit(std::move(operation), {});
  }
  const uint64_t id = next_barrier_++;
  barriers_[id] = {.number = next_ - 1,
                   .patience_s = patience_s,
                   .since = base::mono_ns(),
                   .then = std::move(then),
                   .timer = 0};
  check(id);
}

// Completes the waiter if its operation is answered or its patience is over; otherwise checks again when the
// patience would end without another answer.
void WriterQueue::check(uint64_t id) {
  Barrier& barrier = barriers_.at(id);
  const auto end_of_patience = [&] {
    return std::max(barrier.since, last_answer_) + base::s_to_ns(barrier.patience_s);
  };
  if (!dead_ && answered_ < barrier.number && base::mono_ns() >= end_of_patience()) {
    receive();  // xpurun itself may have been busy since the answers arrived
  }
  const base::MonoNs end = end_of_patience();
  if (dead_ || answered_ >= barrier.number) {
    loop_.cancel(barrier.timer);
    barrier.timer = loop_.after(
        0, [this, id] { settle(id, dead_ || !failed_.none() ? Written::not_all : Written::all); });
  } else if (base::mono_ns() >= end) {
    settle(id, Written::stalled);
  } else {
    barrier.timer = loop_.at(end, [this, id] { check(id); });
  }
}

void WriterQueue::reach_barriers() {
  for (auto& [id, barrier] : barriers_) {
    if (answered_ >= barrier.number) {
      check(id);
    }
  }
}

void WriterQueue::settle(uint64_t id, Written how) {
  auto node = barriers_.extract(id);
  if (!node.empty()) {
    loop_.cancel(node.mapped().timer);
    node.mapped().then(how);
  }
}

void WriterQueue::complain_if_stalled() {
  if (!dead_) {
    receive();  // xpurun itself may have been busy since the answers arrived
  }
  if (dead_ || idle() || complained_) {
    return;
  }
  const base::MonoNs now = base::mono_ns();
  if (now - last_answer_ >= base::s_to_ns(kComplainS)) {
    const std::string path = in_flight_.empty() ? "" : in_flight_.begin()->second.operation.path;
    base::log_warn("the file system of {} has not answered for {}; the job continues", base::sanitize(path),
                   base::human_duration(base::ns_to_s(now - last_answer_)));
    complained_ = true;
    return;
  }
  complaint_timer_.at(last_answer_ + base::s_to_ns(kComplainS), [this] { complain_if_stalled(); });
}

bool WriterQueue::wait_for_socket(base::MonoNs until) {
  const base::MonoNs left = until - base::mono_ns();
  pollfd waiting{.fd = writer_.socket(), .events = POLLIN, .revents = 0};
  if (!queue_.empty() || !outgoing_.empty()) {
    waiting.events |= POLLOUT;
  }
  const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<base::MonoNs>(left / 1'000'000, 0)));
  return ready > 0 || (ready < 0 && errno == EINTR);
}

bool WriterQueue::drain(double patience_s) {
  // The clock is not restarted: the time of the present stall counts.
  while (!dead_ && !idle()) {
    if (!wait_for_socket(last_answer_ + base::s_to_ns(patience_s))) {
      return false;
    }
    receive();
    send_some();
  }
  return !dead_;
}

void WriterQueue::finish(double patience_s) {
  if (!drain(patience_s)) {
    return;
  }
  // The writer ends at the end of its input and then releases the directory's lock.
  ::shutdown(writer_.socket(), SHUT_WR);
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(patience_s);
  while (!dead_ && wait_for_socket(end)) {
    receive();
  }
  if (dead_) {
    reap_soon(writer_.pid(), kReapS);
  }
}

}  // namespace xpurun::launcher
