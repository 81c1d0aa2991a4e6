// NoticeServer: receives the notices of the preload libraries (common/wire/notice.h). A process that reports
// a crash is held by its open connection until release(), its own deadline, or the end of xpurun.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/notice.h"
#include "launcher/os/event_loop.h"
#include "launcher/os/stream_server.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class NoticeServer {
 public:
  // pid and tid are translated into our PID namespace. Kind crash: call release(pid) when done with it.
  using Handler = std::function<void(const wire::Notice& notice, base::Pid pid, base::Tid tid)>;

  // Kind python: the text behind the notice. The process may have ended, and the text is untrusted.
  using TextHandler = std::function<void(base::Pid pid, std::string_view json)>;

  NoticeServer(EventLoop& loop, Handler handler);
  NoticeServer(const NoticeServer&) = delete;
  NoticeServer& operator=(const NoticeServer&) = delete;

  void on_text(TextHandler handler) { text_handler_ = std::move(handler); }
  // `path` at most 107 bytes (sun_path).
  base::Status listen(const std::string& path);
  void release(base::Pid pid);
  void release_all();
  // Kind attach: gives the process a descriptor; -1: reports that there is none.
  void answer_attach(base::Pid pid, int descriptor);

 private:
  using Id = StreamServer::Id;

  void received(Id id, std::string_view message);
  void closed(Id id);

  Handler handler_;
  TextHandler text_handler_;
  std::multimap<base::Pid, Id> held_;       // crashed processes and the connection each waits on
  std::multimap<base::Pid, Id> attaching_;  // processes that wait for a segment, and the connection of each
  StreamServer clients_;
};

}  // namespace xpurun::launcher
