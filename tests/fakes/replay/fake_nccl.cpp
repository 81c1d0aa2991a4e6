// NCCL of the simulated machine: a collective lasts from the last GPU's arrival on.
#include "tests/fakes/replay/fake_machine.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

using namespace fake_replay;

namespace {

struct Comm {
  int rank = 0;
  int size = 0;
};
struct Call {
  std::string name;
  size_t count = 0;
  double ns = 0;
  Stream* stream = nullptr;
};

std::vector<Call> g_group;
bool g_grouping = false;

int end_group() {
  double begin_ns = 0;
  for (const Call& call : g_group) {
    begin_ns = std::max(begin_ns, call.stream->now_ns);
  }
  for (const Call& call : g_group) {
    if (call.name != g_group.front().name || call.count != g_group.front().count) {
      return 4;  // ncclInvalidArgument
    }
    call.stream->now_ns = begin_ns + call.ns;
  }
  g_group.clear();
  return 0;
}

int exchange(const char* name, const void* send, uint64_t send_parts, void* receive, uint64_t receive_parts,
             size_t count, int type, double factor, void* comm, void* stream) {
  constexpr uint64_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  const uint64_t bytes = count * kBytes[type];
  const auto size = static_cast<uint64_t>(static_cast<Comm*>(comm)->size);
  const uint64_t sent = bytes * (send_parts == 0 ? size : 1);
  const uint64_t received = bytes * (receive_parts == 0 ? size : 1);
  if (!is_inside(send, sent) || !is_inside(receive, received) || !g_grouping) {
    return 4;
  }
  std::ostringstream line;
  line << name << " count " << count << " type " << type << " ranks " << size;
  log(line.str());
  const auto all = static_cast<double>(std::max(sent, received));
  g_group.push_back(
      {name, count, all * factor / number("FAKE_REPLAY_BUS_GB_S", 100), static_cast<Stream*>(stream)});
  return 0;
}

double shared_factor(void* comm) {
  const double n = static_cast<Comm*>(comm)->size;
  return (n - 1) / n;
}

}  // namespace

extern "C" {

int ncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
int ncclCommInitAll(void** comms, int count, const int*) {
  for (int i = 0; i < count; ++i) {
    make(&comms[i], Comm{i, count});
  }
  return 0;
}
int ncclCommDestroy(void* comm) {
  return destroy<Comm>(comm);
}
int ncclGroupStart() {
  g_grouping = true;
  return 0;
}
int ncclGroupEnd() {
  g_grouping = false;
  return end_group();
}
int ncclAllReduce(const void* send, void* receive, size_t count, int type, int, void* comm, void* stream) {
  return exchange("ncclAllReduce", send, 1, receive, 1, count, type, 2 * shared_factor(comm), comm, stream);
}
int ncclReduceScatter(const void* send, void* receive, size_t count, int type, int, void* comm,
                      void* stream) {
  return exchange("ncclReduceScatter", send, 0, receive, 1, count, type, shared_factor(comm), comm, stream);
}
int ncclAllGather(const void* send, void* receive, size_t count, int type, void* comm, void* stream) {
  return exchange("ncclAllGather", send, 1, receive, 0, count, type, shared_factor(comm), comm, stream);
}
int ncclReduce(const void* send, void* receive, size_t count, int type, int, int, void* comm, void* stream) {
  return exchange("ncclReduce", send, 1, receive, 1, count, type, 1, comm, stream);
}
int ncclBroadcast(const void* send, void* receive, size_t count, int type, int, void* comm, void* stream) {
  return exchange("ncclBroadcast", send, 1, receive, 1, count, type, 1, comm, stream);
}
}
