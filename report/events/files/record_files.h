// The files below a place that say what processes did: the only search for them.
#pragma once

#include "common/base/result.h"
#include "report/events/files/importers.h"
#include "report/events/rank_record.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct RecordFile {
  std::string path;
  const Importer* importer = nullptr;
};

struct RecordFiles {
  std::vector<RecordFile> files;    // by directory and kind, then by number: spans-2 before spans-10
  std::vector<std::string> traces;  // paths of trace.json, in order
};

// `place`: a file, which counts whatever its name; or a directory, of which every file of a known form
// counts. Links in directories are not followed: "latest" would give the calls twice.
RecordFiles record_files(const std::string& place);

// Whose file it is; some forms hold several processes. An error says why it is left out.
base::Result<std::vector<RecordOwner>> owners_of(const RecordFile& file);

// Adds what the file has of `owner` to its record; `record.whole` is set if the file holds every call. Says
// in `damage` what is missing of the file; empty: nothing.
base::Status add_to_record(RankRecord& record, const RecordFile& file, const RecordOwner& owner,
                           std::string& damage);

}  // namespace xpurun::report
