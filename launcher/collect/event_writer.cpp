#include "launcher/collect/event_writer.h"

#include "common/base/io.h"

#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
// Interval between two records of the clocks. NTP slews wall time by less than a microsecond in that time.
constexpr double kClocksS = 60;
}  // namespace

base::Result<EventWriter> EventWriter::create(const std::string& path, const model::EventFileHeader& header) {
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) {
    return base::fail_errno("cannot create " + path);
  }
  EventWriter out(std::move(fd), header.mono_ns);
  const std::string head = model::EventEncoder::header(header);
  if (auto written = base::write_all(out.fd_.get(), head); !written) {
    return base::fail(base::Error(written.error()).context(path));
  }
  out.written_ = head.size();
  return out;
}

void EventWriter::define(uint32_t op, const wire::Segment& memory) {
  const wire::OpEntry& entry = memory.ops[op];
  const uint64_t calls = entry.calls.load();
  // Calls of one entry are alike.
  encoder_.define(op, entry.key, calls == 0 ? 0 : entry.work.load() / calls);
}

void EventWriter::add(const wire::Event& event, const wire::Segment& memory) {
  const uint32_t slot = memory.ops[event.op].key.comm;
  if (slot < wire::kCommSlots) {
    const wire::CommEntry& comm = memory.comms[slot];
    encoder_.define({.slot = slot,
                     .identity = comm.identity,
                     .rank = comm.rank,
                     .nranks = comm.nranks,
                     .name = std::string(comm.name, ::strnlen(comm.name, sizeof comm.name))});
  }
  if (!encoder_.knows(event.op)) {
    define(event.op, memory);
  }
  encoder_.add(event);
  ++events_;
}

base::Status EventWriter::flush() {
  if (encoder_.pending() == 0) {
    return {};
  }
  const base::MonoNs now = base::mono_ns();
  if (base::ns_to_s(now - clocks_at_) > kClocksS) {
    clocks_at_ = now;
    encoder_.clocks(now, base::wall_ns());
  }
  const std::string block = encoder_.take_block();
  if (!fd_) {
    return {};
  }
  if (auto written = base::write_all(fd_.get(), block); !written) {
    (void)!::ftruncate(fd_.get(), static_cast<off_t>(written_));
    fd_.reset();
    return base::fail(std::move(written.error()));
  }
  written_ += block.size();
  return {};
}

}  // namespace xpurun::launcher
