// RelayMemory: the state that a successor needs after a relay or its keeper was killed, in memory that the
// supervisor, the keeper, its deputy and the relay share: the processes, the descriptors (the keeper, its
// deputy and the relay have the same ones), and how far the output has come. One relay at a time writes the
// output's part; the keeper and its deputy write the pids.
#pragma once

#include "common/base/ids.h"
#include "common/wire/logs.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xpurun::launcher {

struct KeptPipe {
  int fd = -1;
  uint32_t rank = 0;
  wire::LogStream which = wire::LogStream::out;
};

// The way of one rank's output through the relay, in bytes. The sinks' threads add to the last two.
struct StreamProgress {
  uint32_t rank = 0;
  wire::LogStream which = wire::LogStream::out;
  std::atomic<uint64_t> taken = 0;     // from the pipes
  std::atomic<uint64_t> filed = 0;     // of these, written to the file, or noted as lost there
  std::atomic<uint64_t> repeated = 0;  // of these, written to xpurun's stream
};

class RelayMemory {
 public:
  // If the mapping fails, nothing is recorded.
  RelayMemory(int listener, int channel);

  void add(const KeptPipe& pipe);
  void remove(int fd);
  std::vector<KeptPipe> pipes() const;

  // -1: closed.
  int listener() const { return shared_ == nullptr ? -1 : shared_->listener; }
  int channel() const { return shared_ == nullptr ? -1 : shared_->channel; }
  bool finishing() const { return shared_ != nullptr && shared_->finishing; }
  void close_listener();
  void close_channel();
  void finish();

  // The exit status of a relay that has ended by itself; -1: none has.
  int ended() const { return shared_ == nullptr ? -1 : shared_->ended.load(); }
  [[noreturn]] void end(int status);

  enum class Part { keeper, deputy, relay };
  // 0: none.
  base::Pid pid(Part part) const;
  void set_pid(Part part, base::Pid pid);

  // The entry of a stream, a new one if there is none; null if there is no room.
  StreamProgress* progress(uint32_t rank, wire::LogStream which);
  // All entries.
  std::vector<StreamProgress*> streams() const;

  bool works() const { return shared_ != nullptr; }
  // The recorded descriptors.
  std::vector<int> descriptors() const;

 private:
  static constexpr size_t kMostPipes = 8192;
  static constexpr size_t kMostStreams = 4096;
  struct Shared {
    int listener = -1;
    int channel = -1;
    bool finishing = false;
    std::atomic<int> ended = -1;
    std::atomic<base::Pid> pids[3] = {};
    size_t streams_used = 0;
    KeptPipe pipes[kMostPipes];
    StreamProgress streams[kMostStreams];
  };
  Shared* shared_ = nullptr;  // never unmapped: the process ends with it
};

}  // namespace xpurun::launcher
