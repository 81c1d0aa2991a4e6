// The verdict as a structured message to systemd's journal, so that `journalctl XPURUN_VERDICT=hang.stuck`
// finds it. By the native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): one datagram, no library.
#pragma once

#include "common/model/verdict.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

// MESSAGE_ID of every verdict (journalctl MESSAGE_ID=...).
inline constexpr std::string_view kVerdictMessageId = "5b3f0c7a5d0e4b0fa1c36f1d1d7f8a52";

// Whether standard error goes to the journal: $JOURNAL_STREAM names its device and inode.
bool logs_to_journal(const char* journal_stream, int stderr_fd);

// The datagram.
std::string journal_entry(const model::Verdict& verdict, std::string_view run_dir);

// Never waits; a journal that does not take the entry does not get it.
void send_to_journal(const std::string& entry, const char* socket = "/run/systemd/journal/socket");

}  // namespace xpurun::launcher
