// A /proc and a /sys made of files.
#pragma once

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "launcher/machine/host/host_files.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace xpurun::test {

class FakeHost {
 public:
  FakeHost& proc(const std::string& path, const std::string& text) { return put("proc/" + path, text); }
  FakeHost& sys(const std::string& path, const std::string& text) { return put("sys/" + path, text); }
  FakeHost& link(const std::string& path, const std::string& target) {
    const std::string full = fmt::format("{}/{}", root_.path(), path);
    REQUIRE(base::make_dirs(full.substr(0, full.rfind('/'))));
    std::filesystem::remove(full);
    std::filesystem::create_symlink(target, full);
    return *this;
  }
  launcher::HostFiles files() const {
    return launcher::HostFiles(root_.path() + "/proc", root_.path() + "/sys");
  }

 private:
  FakeHost& put(const std::string& path, const std::string& text) {
    const std::string full = fmt::format("{}/{}", root_.path(), path);
    REQUIRE(base::make_dirs(full.substr(0, full.rfind('/'))));
    REQUIRE(base::write_file_atomic(full, text));
    return *this;
  }

  base::TemporaryDirectory root_ = *base::TemporaryDirectory::create("xpurun-host-");
};

// The value of the fact and object; null if the reading has none.
inline const model::MachineValue* value_of(const model::MachineReading& reading, model::MachineFact fact,
                                           const std::string& object) {
  const auto it = std::find_if(reading.values.begin(), reading.values.end(),
                               [&](const auto& v) { return v.fact == fact && v.object == object; });
  return it == reading.values.end() ? nullptr : &*it;
}

}  // namespace xpurun::test
