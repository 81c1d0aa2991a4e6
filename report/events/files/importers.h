// The forms of files that say what a process did, one row for each. A form of another tool is a row here and
// its reader in foreign/: time lines, analyses, comparisons and questions then take its files.
#pragma once

#include "common/base/result.h"
#include "common/model/timing/record_file.h"
#include "report/events/activity.h"
#include "report/events/record_owner.h"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct Importer {
  std::string_view name;  // "torch.profiler"
  // Of the names of its files. In a directory no others count; `named_ending`: if the user names the file.
  std::span<const std::string_view> endings;
  std::string_view named_ending;
  base::Result<RecordOwner> (*owner)(const std::string& path) = nullptr;
  // Adds the file; null for our files, which hold more than slices. Of a file of several processes it adds
  // the one with the rank of `out`, or without a rank the one with its pid.
  base::Status (*read)(Activity& out, const std::string& path) = nullptr;
  // Of a file of several processes, instead of `owner`.
  base::Result<std::vector<RecordOwner>> (*owners)(const std::string& path) = nullptr;

  bool is_ours() const { return read == nullptr; }
};

// Ours first.
std::span<const Importer> importers();
// By the name of the file; null: no form is known. `named`: by the user, not found in a directory.
const Importer* importer_of(std::string_view path, bool named);

// The header of one of our files.
base::Result<model::EventFileHeader> read_record_header(const std::string& path);

}  // namespace xpurun::report
