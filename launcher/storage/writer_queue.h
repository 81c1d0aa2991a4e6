// WriterQueue: the supervisor's end of a WriterProcess. Never blocks: operations that the socket does not
// accept are queued in bounded memory. A queued replacement takes the newer text; appends to one file are
// joined; operations that find no room are dropped and counted. Event loop's thread only.
#pragma once

#include "common/base/clock.h"
#include "launcher/os/timer.h"
#include "launcher/storage/failed_files.h"
#include "launcher/storage/storage.h"
#include "launcher/storage/writer_process.h"

#include <deque>
#include <map>
#include <vector>

namespace xpurun::launcher {

class WriterQueue final : public Storage {
 public:
  static constexpr size_t kMostBytes = size_t{32} << 20;

  WriterQueue(EventLoop& loop, WriterProcess writer, size_t most_bytes = kMostBytes);
  ~WriterQueue() override;

  void submit(FileOperation operation, Done done) override;
  void when_written(double patience_s, std::function<void(Written)> then) override;
  std::string problem() const override;

  base::Pid pid() const override { return writer_.pid(); }
  uint64_t dropped() const { return dropped_; }
  size_t waiting_bytes() const { return waiting_bytes_; }

  bool drain(double patience_s) override;
  // Waits for the end of the writer, which ends once the socket is closed.
  void finish(double patience_s) override;

 private:
  struct Item {
    uint64_t number = 0;
    FileOperation operation;
    Done done;
  };
  struct Barrier {
    uint64_t number = 0;  // done when this operation has been answered
    double patience_s = 0;
    base::MonoNs since = 0;
    std::function<void(Written)> then;
    EventLoop::TimerId timer = 0;
  };

  bool join(FileOperation& operation, const Done& done);
  void send_some();
  void receive();
  void take_answers();
  void answered(const NumberedAnswer& answer);
  bool has_newer(const FileOperation& operation) const;
  void writer_died();
  void watch();
  void reach_barriers();
  void check(uint64_t id);
  void settle(uint64_t id, Written how);
  bool idle() const { return queue_.empty() && outgoing_.empty() && in_flight_.empty(); }
  bool wait_for_socket(base::MonoNs until);
  void complain_if_stalled();

  EventLoop& loop_;
  WriterProcess writer_;
  size_t most_bytes_;
  uint32_t watched_ = 0;  // epoll events
  bool dead_ = false;
  uint64_t next_ = 1;
  uint64_t answered_ = 0;
  base::MonoNs last_answer_ = 0;
  std::deque<Item> queue_;              // nothing of these was sent yet
  std::string outgoing_;                // encoded, partly sent
  std::map<uint64_t, Item> in_flight_;  // with data only if a retry may need the data
  std::string incoming_;
  size_t waiting_bytes_ = 0;  // of queue_
  uint64_t dropped_ = 0;
  FailedFiles failed_;
  std::map<uint64_t, Barrier> barriers_;
  uint64_t next_barrier_ = 1;
  bool complained_ = false;  // about this stall
  Timer complaint_timer_{loop_};
};

}  // namespace xpurun::launcher
