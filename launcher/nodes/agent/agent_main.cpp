// xpurun-nodes: joins the supervisors of a job's nodes through a NATS server. Started by a supervisor with a
// socket as descriptor 3; docs/nodes.md has the messages. Has no options: secrets come over the socket.
#include "common/base/output/log.h"
#include "launcher/nodes/agent/agent.h"

#include <malloc.h>
#include <signal.h>
#include <sys/stat.h>

using namespace xpurun;

int main() {
  constexpr int kSocket = 3;
  constexpr int kUsage = 2;
  // Threads of libnats mostly wait for the network: a malloc arena for each would only cost memory on every
  // node.
  ::mallopt(M_ARENA_MAX, 1);
  // The terminal's signals are for the job. A supervisor that ends closes the socket.
  for (const int number : {SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    ::signal(number, SIG_IGN);
  }
  ::umask(077);
  struct stat info {};
  if (::fstat(kSocket, &info) != 0 || !S_ISSOCK(info.st_mode)) {
    base::log_warn("xpurun-nodes is started by xpurun, with a socket as descriptor 3");
    return kUsage;
  }
  auto loop = launcher::EventLoop::create();
  if (!loop) {
    base::log_warn("{}", to_line(loop.error()));
    return 1;
  }
  nodes::Agent agent(*loop, base::UniqueFd(kSocket));
  const auto status = agent.run();
  if (!status) {
    base::log_warn("{}", to_line(status.error()));
    return 1;
  }
  return *status;
}
