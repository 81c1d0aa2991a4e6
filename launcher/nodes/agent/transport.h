// Transport: the connection to the NATS server, by libnats. One thread of its own connects, for ever and with
// back-off, and publishes; libnats's threads receive. Everything they hear goes into a queue with a limit,
// which the loop's thread empties: no call here waits for the network, except finish().
#pragma once

#include "launcher/nodes/agent/inbox.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace xpurun::nodes {

struct ServerSettings {
  std::vector<std::string> urls;
  std::string name;  // of this client, for the server's log
  std::string token;
  std::string user;
  std::string password;
  std::string creds;     // path of a credentials file
  std::string tls_ca;    // path
  std::string tls_cert;  // path
  std::string tls_key;   // path

  friend bool operator==(const ServerSettings&, const ServerSettings&) = default;
};

class Transport {
 public:
  Transport();
  // Ends the connection and its threads; may take some seconds.
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Readable when take() has something.
  int fd() const;
  std::vector<Received> take();
  // Messages that did not fit into the queues since the last call.
  uint64_t take_dropped();

  // Connects, or connects anew if the settings differ.
  void configure(ServerSettings settings);
  // Subscriptions outlive a connection.
  void subscribe(const std::string& subject);
  void unsubscribe(const std::string& subject);
  // Nothing is kept for later: a message without a connection, or beyond the limit, is dropped.
  void publish(std::string subject, std::string bytes);
  // Sends the queued messages, for at most this time. Nothing can be published afterwards.
  void finish(double seconds);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace xpurun::nodes
