#include "launcher/mpi/call_places.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/spawn/install_paths.h"
#include "stackdump/memory/proc_maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostPlaces = 4096;  // of a job
constexpr size_t kMostAtOnce = 128;   // words of a command line
constexpr double kSettleS = 2;
constexpr size_t kLongestLine = size_t{1} << 20;

std::string bare(const std::pair<std::string, uint64_t>& key) {
  return base::sanitize(fmt::format("{}+{:#x}", base::base_name(key.first), key.second));
}

}  // namespace

std::map<uint64_t, CallPlaces::Part> CallPlaces::parts_of(base::Pid pid) {
  std::map<uint64_t, Part> out;
  const auto maps = stackdump::ProcMaps::read(pid);
  if (!maps) {
    return out;
  }
  for (const stackdump::Mapping& m : maps->all()) {
    if (m.is_file() && m.executable) {
      out.emplace(m.lo, Part{.lo = m.lo,
                             .hi = m.hi,
                             .offset = m.offset,
                             .path = m.path,
                             .line = stackdump::to_text(stackdump::ProcMaps({m}))});
    }
  }
  return out;
}

const CallPlaces::Part* CallPlaces::part_at(const Process& process, uint64_t address) {
  auto it = process.parts.upper_bound(address);
  if (it == process.parts.begin()) {
    return nullptr;
  }
  --it;
  return address < it->second.hi ? &it->second : nullptr;
}

std::optional<std::string> CallPlaces::find(base::Pid pid, uint64_t address) {
  // The call is before the address to which it returns.
  address -= address > 0 ? 1 : 0;
  Process& process = processes_[pid];
  auto known = process.known.find(address);
  if (known == process.known.end()) {
    const Part* part = part_at(process, address);
    if (part == nullptr && process.known.size() < kMostPlaces) {
      process.parts.merge(parts_of(pid));
      part = part_at(process, address);
    }
    Key key;
    if (part != nullptr) {
      key = {part->path, part->offset + (address - part->lo)};
    }
    known = process.known.emplace(address, std::move(key)).first;
  }
  const Key& key = known->second;
  if (key.first.empty()) {
    return "";
  }
  if (const auto text = texts_.find(key); text != texts_.end()) {
    return text->second;
  }
  if (settled_ || texts_.size() + wanted_.size() >= kMostPlaces) {
    return bare(key);
  }
  const bool asked =
      std::any_of(asked_.begin(), asked_.end(), [&](const auto& one) { return one.second == key; });
  if (!asked) {
    wanted_.try_emplace(key, pid, address);
    start();
  }
  return std::nullopt;
}

// Addresses of one process at a time: those of two may be equal.
void CallPlaces::start() {
  if (helper_.pid() > 0 || wanted_.empty()) {
    return;
  }
  const auto program = stackdump_program();
  const base::Pid pid = wanted_.begin()->second.first;
  std::vector<std::string> words{program.value_or(""), "--pid", std::to_string(pid)};
  std::set<const Part*> parts;
  for (auto it = wanted_.begin(); it != wanted_.end() && asked_.size() < kMostAtOnce;) {
    const auto [owner, address] = it->second;
    const Part* part = owner == pid ? part_at(processes_[pid], address) : nullptr;
    if (owner == pid && part == nullptr) {
      texts_[it->first] = bare(it->first);  // the pid is another process now
      it = wanted_.erase(it);
      continue;
    }
    if (owner != pid) {
      ++it;
      continue;
    }
    if (parts.insert(part).second) {
      words.insert(words.end(), {"--mapping", part->line});
    }
    words.insert(words.end(), {"--place", fmt::format("{:#x}", address)});
    asked_[address] = it->first;
    it = wanted_.erase(it);
  }
  if (asked_.empty()) {
    return;
  }
  auto helper = program ? HelperProcess::start(words, setup_.signal_mask, setup_.stderr_fd)
                        : base::Result<HelperProcess>(base::fail(program.error()));
  if (!helper) {
    base::log_info("the places of calls are not looked up: {}", base::to_line(helper.error()));
    give_up();
    return;
  }
  helper_ = std::move(*helper);
  helper_.close_input();
  setup_.started(helper_.pid());
  if (!setup_.loop.add(helper_.output(), EPOLLIN, [this](uint32_t) { read_output(); })) {
    give_up();
    helper_.kill();
  }
}

// False at the end of the helper's output.
bool CallPlaces::read_output() {
  if (helper_.output() >= 0) {
    if (helper_.read_lines(text_, kLongestLine, [this](std::string_view line) { take(line); })) {
      return true;
    }
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
  give_up();
  return false;
}

// "place 0x401136 heat.c:88 (residual)"
void CallPlaces::take(std::string_view line) {
  constexpr std::string_view kWord = "place 0x";
  const size_t blank = line.find(' ', kWord.size());
  if (!line.starts_with(kWord) || blank == std::string_view::npos) {
    return;
  }
  const auto address = base::parse_hex(line.substr(kWord.size(), blank - kWord.size()));
  const auto asked = address ? asked_.find(*address) : asked_.end();
  if (asked != asked_.end()) {
    texts_[asked->second] = base::sanitize(line.substr(blank + 1));
    asked_.erase(asked);
  }
}

void CallPlaces::give_up() {
  for (const auto& [address, key] : asked_) {
    texts_.try_emplace(key, bare(key));
  }
  asked_.clear();
  text_.clear();
}

void CallPlaces::settle() {
  const base::MonoNs until = base::mono_ns() + static_cast<base::MonoNs>(kSettleS * 1e9);
  while ((!asked_.empty() || !wanted_.empty()) && base::mono_ns() < until) {
    if (asked_.empty()) {
      helper_ = HelperProcess();  // it has answered; its end is not noticed here
      start();
      continue;
    }
    pollfd one{.fd = helper_.output(), .events = POLLIN, .revents = 0};
    ::poll(&one, 1, 100);
    read_output();
  }
  settled_ = true;
}

bool CallPlaces::helper_ended(base::Pid pid, base::WaitStatus) {
  if (helper_.pid() <= 0 || pid != helper_.pid()) {
    return false;
  }
  read_output();  // the last lines are still in the pipe
  helper_.forget();
  start();
  return true;
}

void CallPlaces::stop() {
  if (helper_.output() >= 0) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
  helper_.kill();
}

}  // namespace xpurun::launcher
