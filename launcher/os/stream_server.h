// StreamServer: the connections of a listening socket on the event loop, with limits on their number and
// time, and buffers in both directions. Slow, silent, huge or numerous clients cost bounded memory and time
// and block nothing. The owner interprets the bytes. Event loop's thread only.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "launcher/os/acceptor.h"
#include "launcher/os/event_loop.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

class StreamServer {
 public:
  // The id of one connection. Ids are never reused, so a late answer cannot reach another client.
  using Id = uint64_t;

  struct Limits {
    size_t most_clients = 64;
    std::string too_many;   // sent to a client beyond the limit; may be empty
    double request_s = 10;  // until the first complete request; then the owner sets the deadlines
    // Beyond the limit, the oldest client without a complete request makes room if it is older than this:
    // else a stranger's silent connections would keep everybody out.
    double silent_s = 1;
    size_t most_unsent = 0;  // bytes waiting in our buffer; a client with more is dropped
  };
  struct Handlers {
    // Bytes have arrived. The handler removes the bytes that it has used from `input`. The rest is passed
    // again together with the next bytes. The handler may drop the client.
    std::function<void(Id, std::string& input)> received;
    // The client has shut down its sending side or closed the connection. The two look the same here. `input`
    // holds the unused bytes; no more are read.
    std::function<void(Id, std::string input)> input_ended;
    // The connection is closed, for any reason.
    std::function<void(Id)> closed;
  };

  StreamServer(EventLoop& loop, Limits limits, Handlers handlers);
  ~StreamServer();
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;

  // `listener` is non-blocking and already listens.
  base::Status start(base::UniqueFd listener) { return acceptor_.start(std::move(listener)); }

  bool known(Id id) const { return clients_.count(id) != 0; }
  size_t clients() const { return clients_.size(); }
  // -1 if the client is gone. The descriptor stays the server's.
  int descriptor(Id id) const;

  // The following do nothing if the client is gone.
  // Sends at once as much as the socket takes, and the rest when the client has read.
  void send(Id id, std::string_view bytes);
  // Closes the connection once everything is sent. Further input is ignored.
  void finish(Id id);
  void drop(Id id);
  // Closes the connection after this time; replaces an earlier deadline.
  void set_deadline(Id id, double seconds);
  void clear_deadline(Id id);

 private:
  struct Client {
    base::UniqueFd fd;
    std::string input;
    std::string output;
    size_t sent = 0;  // of the output
    bool reads = true;
    bool finishing = false;
    uint32_t watched = 0;  // epoll events
    base::MonoNs since = 0;
    bool has_asked = false;  // the owner has set its deadline
    EventLoop::TimerId deadline = 0;
  };

  void take(base::UniqueFd connection);
  // False if every client has asked, or has come just now.
  bool make_room();
  void set_timer(Client& client, Id id, double seconds);
  void ready(Id id, uint32_t events);
  void read_some(Id id);
  void end_input(Id id);
  // Sends as much as the socket takes.
  void flush(Id id);
  // Waits for the events that the client's state needs.
  void watch(Id id);
  Client* find(Id id);

  EventLoop& loop_;
  // On the heap: the stack may be as small as 128 KiB (ulimit -s).
  std::vector<char> chunk_;
  Limits limits_;
  Handlers handlers_;
  Acceptor acceptor_;
  std::map<Id, Client> clients_;
  Id next_ = 1;
};

}  // namespace xpurun::launcher
