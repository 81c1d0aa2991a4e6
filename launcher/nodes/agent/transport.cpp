#include "launcher/nodes/agent/transport.h"

#include "common/base/strings.h"
#include "launcher/nodes/node_limits.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <nats/nats.h>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

namespace xpurun::nodes {

namespace {

using namespace std::chrono_literals;
using launcher::kMostUnsentBytes;

constexpr int64_t kConnectTimeoutMs = 2000;
constexpr int64_t kWriteTimeoutMs = 3000;
// A server that vanishes without closing the connection is noticed after three of these intervals.
constexpr int64_t kPingIntervalMs = 3000;
constexpr int kPingsUnanswered = 2;
constexpr auto kFirstRetry = 200ms;
constexpr auto kLastRetry = 2000ms;

struct OptionsDeleter {
  void operator()(natsOptions* o) const { natsOptions_Destroy(o); }
};
struct ConnectionDeleter {
  void operator()(natsConnection* c) const { natsConnection_Destroy(c); }
};
struct SubscriptionDeleter {
  void operator()(natsSubscription* s) const { natsSubscription_Destroy(s); }
};
using Options = std::unique_ptr<natsOptions, OptionsDeleter>;
using Connection = std::unique_ptr<natsConnection, ConnectionDeleter>;
using Subscription = std::unique_ptr<natsSubscription, SubscriptionDeleter>;

std::string last_error(natsStatus status) {
  const char* text = nats_GetLastError(nullptr);
  std::string out = natsStatus_GetText(status);
  if (text == nullptr || *text == '\0') {
    return out;
  }
  // "(conn.c:2088): words": the position in libnats helps no user.
  std::string_view words = text;
  if (const size_t place = words.find(".c:"); words.starts_with('(') && place != std::string_view::npos) {
    const size_t end = words.find("): ", place);
    words.remove_prefix(end == std::string_view::npos ? 0 : end + 3);
  }
  return words == out ? out : out + ": " + std::string(words);
}

// "nats://user:password@host:4222" -> "nats://host:4222".
std::string without_secrets(const std::string& url) {
  const size_t host = url.find("://");
  const size_t begin = host == std::string::npos ? 0 : host + 3;
  const size_t at = url.rfind('@');
  return at == std::string::npos || at < begin ? url : url.substr(0, begin) + url.substr(at + 1);
}

bool needs_tls(const ServerSettings& s) {
  return !s.tls_ca.empty() || !s.tls_cert.empty() ||
         std::any_of(s.urls.begin(), s.urls.end(),
                     [](const std::string& u) { return u.starts_with("tls://"); });
}

}  // namespace

class Transport::Impl {
 public:
  Impl() : thread_([this] { work(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    // Callbacks of closed connections may still be on their way.
    nats_CloseAndWait(kConnectTimeoutMs);
  }

  Inbox& inbox() { return inbox_; }

  void configure(ServerSettings settings) {
    {
      const std::lock_guard lock(mutex_);
      if (settings_ && *settings_ == settings) {
        return;
      }
      settings_ = std::move(settings);
      reconfigured_ = true;
    }
    wake_.notify_all();
  }

  void subscribe(const std::string& subject, bool wanted) {
    {
      const std::lock_guard lock(mutex_);
      if (wanted) {
        subjects_.insert(subject);
      } else {
        subjects_.erase(subject);
      }
      resubscribe_ = true;
    }
    wake_.notify_all();
  }

  void publish(std::string subject, std::string bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (!connected_ || finishing_ || unsent_bytes_ + bytes.size() > kMostUnsentBytes) {
        return;
      }
      unsent_bytes_ += bytes.size();
      unsent_.emplace_back(std::move(subject), std::move(bytes));
    }
    wake_.notify_all();
  }

  void finish(double seconds) {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    wake_.notify_all();
    wake_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return finished_ || !connected_; });
  }

 private:
  // What a callback of one connection needs to know.
  struct Closure {
    Impl* impl = nullptr;
    uint64_t connection = 0;
  };

  static void on_message(natsConnection* /*nc*/, natsSubscription* /*sub*/, natsMsg* message, void* closure) {
    auto* impl = static_cast<Impl*>(closure);
    const auto length = static_cast<size_t>(std::max(0, natsMsg_GetDataLength(message)));
    if (length <= launcher::kLongestMessage) {
      impl->inbox_.push({.text = std::string(natsMsg_GetData(message), length)});
    } else {
      impl->inbox_.count_dropped();
    }
    natsMsg_Destroy(message);
  }

  static void on_closed(natsConnection* nc, void* closure) {
    const auto* c = static_cast<Closure*>(closure);
    const char* text = nullptr;
    const natsStatus status = natsConnection_GetLastError(nc, &text);
    const bool described = text != nullptr && *text != '\0';
    {
      const std::lock_guard lock(c->impl->mutex_);
      if (c->connection == c->impl->connection_) {
        c->impl->lost_ = described ? text : natsStatus_GetText(status);
      }
    }
    c->impl->wake_.notify_all();
  }

  // The default handler prints.
  static void on_error(natsConnection* /*nc*/, natsSubscription* /*sub*/, natsStatus status, void* closure) {
    if (status == NATS_SLOW_CONSUMER) {
      static_cast<Impl*>(closure)->inbox_.count_dropped();
    }
  }

  natsStatus fill(natsOptions* o, const ServerSettings& s, Closure* closure) {
    std::vector<const char*> urls;
    for (const std::string& url : s.urls) {
      urls.push_back(url.c_str());
    }
    natsStatus status = natsOptions_SetServers(o, urls.data(), static_cast<int>(urls.size()));
    const auto then = [&status](auto set) {
      if (status == NATS_OK) {
        status = set();
      }
    };
    then([&] { return natsOptions_SetName(o, s.name.c_str()); });
    then([&] { return natsOptions_SetTimeout(o, kConnectTimeoutMs); });
    then([&] { return natsOptions_SetWriteDeadline(o, kWriteTimeoutMs); });
    then([&] { return natsOptions_SetPingInterval(o, kPingIntervalMs); });
    then([&] { return natsOptions_SetMaxPingsOut(o, kPingsUnanswered); });
    // This class reconnects itself: libnats would send old messages after a reconnection, and would give up
    // after two refusals.
    then([&] { return natsOptions_SetAllowReconnect(o, false); });
    then([&] { return natsOptions_SetNoEcho(o, true); });
    // libnats otherwise leaves sending to its flusher thread, which collects messages first.
    then([&] { return natsOptions_SetSendAsap(o, true); });
    // One delivery thread for all subscriptions, instead of a thread for each.
    then([&] { return natsOptions_UseGlobalMessageDelivery(o, true); });
    then([&] { return natsOptions_SetClosedCB(o, on_closed, closure); });
    then([&] { return natsOptions_SetErrorHandler(o, on_error, this); });
    if (!s.token.empty()) {
      then([&] { return natsOptions_SetToken(o, s.token.c_str()); });
    }
    if (!s.user.empty()) {
      then([&] { return natsOptions_SetUserInfo(o, s.user.c_str(), s.password.c_str()); });
    }
    if (!s.creds.empty()) {
      then([&] { return natsOptions_SetUserCredentialsFromFiles(o, s.creds.c_str(), nullptr); });
    }
    if (needs_tls(s)) {
      then([&] { return natsOptions_SetSecure(o, true); });
    }
    if (!s.tls_ca.empty()) {
      then([&] { return natsOptions_LoadCATrustedCertificates(o, s.tls_ca.c_str()); });
    }
    if (!s.tls_cert.empty()) {
      then([&] { return natsOptions_LoadCertificatesChain(o, s.tls_cert.c_str(), s.tls_key.c_str()); });
    }
    return status;
  }

  // Null after a report of the reason to the owner.
  Connection connect(const ServerSettings& s, Closure* closure) {
    natsOptions* raw = nullptr;
    natsStatus status = natsOptions_Create(&raw);
    const Options options(raw);
    if (status == NATS_OK) {
      status = fill(raw, s, closure);
    }
    if (status != NATS_OK) {
      inbox_.push({.event = TransportEvent::refused, .text = last_error(status)});
      return nullptr;
    }
    natsConnection* connection = nullptr;
    status = natsConnection_Connect(&connection, raw);
    if (status == NATS_OK) {
      return Connection(connection);
    }
    const bool refused = status == NATS_CONNECTION_AUTH_FAILED || status == NATS_SSL_ERROR ||
                         status == NATS_SECURE_CONNECTION_REQUIRED ||
                         status == NATS_SECURE_CONNECTION_WANTED || status == NATS_INVALID_ARG ||
                         status == NATS_ADDRESS_MISSING;
    std::string why = last_error(status);
    if (status == NATS_NO_SERVER) {
      std::vector<std::string> urls;
      std::transform(s.urls.begin(), s.urls.end(), std::back_inserter(urls), without_secrets);
      why = "no NATS server answers at " + base::join(urls, ", ");
    }
    inbox_.push(
        {.event = refused ? TransportEvent::refused : TransportEvent::unreachable, .text = std::move(why)});
    return nullptr;
  }

  void update_subscriptions(natsConnection* connection, std::map<std::string, Subscription>& held,
                            const std::set<std::string>& wanted) {
    std::erase_if(held, [&](const auto& s) { return wanted.count(s.first) == 0; });
    for (const std::string& subject : wanted) {
      if (held.count(subject) != 0) {
        continue;
      }
      natsSubscription* raw = nullptr;
      if (natsConnection_Subscribe(&raw, connection, subject.c_str(), on_message, this) == NATS_OK) {
        natsSubscription_SetPendingLimits(raw, -1, static_cast<int>(launcher::kMostReceivedBytes));
        held[subject] = Subscription(raw);
      }
    }
  }

  // Publishes until the connection is lost or not wanted any more.
  void serve(natsConnection* connection) {
    std::map<std::string, Subscription> held;
    std::unique_lock lock(mutex_);
    resubscribe_ = true;
    bool announced = false;
    while (!stop_ && !reconfigured_ && !lost_) {
      if (std::exchange(resubscribe_, false)) {
        const std::set<std::string> wanted = subjects_;
        lock.unlock();
        update_subscriptions(connection, held, wanted);
        if (!std::exchange(announced, true)) {
          announce(connection);
        }
        lock.lock();
      } else if (!unsent_.empty()) {
        const auto [subject, bytes] = std::move(unsent_.front());
        unsent_.pop_front();
        unsent_bytes_ -= bytes.size();
        lock.unlock();
        const natsStatus status =
            natsConnection_Publish(connection, subject.c_str(), bytes.data(), static_cast<int>(bytes.size()));
        if (status != NATS_OK) {
          inbox_.count_dropped();
        }
        lock.lock();
      } else if (finishing_ && !finished_) {
        lock.unlock();
        natsConnection_FlushTimeout(connection, kConnectTimeoutMs);
        lock.lock();
        finished_ = true;
        wake_.notify_all();
      } else {
        wake_.wait(lock);
      }
    }
    connected_ = false;
    ++connection_;
    // Dropped, not kept: senders repeat the messages that must arrive, and old states would mislead.
    unsent_.clear();
    unsent_bytes_ = 0;
    const std::string reason = lost_.value_or("connecting anew");
    lost_.reset();
    lock.unlock();
    wake_.notify_all();
    inbox_.push({.event = TransportEvent::lost, .text = reason});
  }

  void announce(natsConnection* connection) {
    char url[512] = "";
    natsConnection_GetConnectedUrl(connection, url, sizeof url);
    const int64_t largest = natsConnection_GetMaxPayload(connection);
    {
      const std::lock_guard lock(mutex_);
      connected_ = true;
    }
    inbox_.push({.event = TransportEvent::connected,
                 .text = without_secrets(url),
                 .number = static_cast<uint64_t>(std::max<int64_t>(0, largest))});
  }

  void work() {
    nats_Open(-1);
    auto retry = kFirstRetry;
    std::unique_lock lock(mutex_);
    while (!stop_) {
      if (!settings_) {
        wake_.wait(lock);
        continue;
      }
      reconfigured_ = false;
      lost_.reset();
      const ServerSettings settings = *settings_;
      closures_.push_back({.impl = this, .connection = connection_});
      Closure* closure = &closures_.back();
      lock.unlock();
      Connection connection = connect(settings, closure);
      if (connection) {
        serve(connection.get());
        connection.reset();
        retry = kFirstRetry;
      }
      lock.lock();
      if (!connection && !stop_ && !reconfigured_) {
        wake_.wait_for(lock, retry, [this] { return stop_ || reconfigured_; });
        retry = std::min<std::chrono::milliseconds>(retry * 2, kLastRetry);
      }
    }
  }

  Inbox inbox_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool reconfigured_ = false;
  bool resubscribe_ = false;
  bool connected_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  std::optional<std::string> lost_;  // reason
  uint64_t connection_ = 1;          // number of the present one
  std::optional<ServerSettings> settings_;
  std::set<std::string> subjects_;
  std::deque<std::pair<std::string, std::string>> unsent_;
  size_t unsent_bytes_ = 0;
  // Callbacks of a closed connection may come late, so none is ever removed.
  std::deque<Closure> closures_;
  std::thread thread_;
};

Transport::Transport() : impl_(std::make_unique<Impl>()) {}
Transport::~Transport() = default;

int Transport::fd() const {
  return impl_->inbox().fd();
}
std::vector<Received> Transport::take() {
  return impl_->inbox().take();
}
uint64_t Transport::take_dropped() {
  return impl_->inbox().take_dropped();
}
void Transport::configure(ServerSettings settings) {
  impl_->configure(std::move(settings));
}
void Transport::subscribe(const std::string& subject) {
  impl_->subscribe(subject, true);
}
void Transport::unsubscribe(const std::string& subject) {
  impl_->subscribe(subject, false);
}
void Transport::publish(std::string subject, std::string bytes) {
  impl_->publish(std::move(subject), std::move(bytes));
}
void Transport::finish(double seconds) {
  impl_->finish(seconds);
}

}  // namespace xpurun::nodes
