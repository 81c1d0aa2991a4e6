// The Flight Recorder dumps of a directory: one file per rank, "<prefix><rank>" as torch writes them, or
// "<prefix><rank>.json". A few threads read them, because a job has up to 1,024 ranks and a file up to 256
// MiB.
#pragma once

#include "common/model/collectives.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct FlightFile {
  base::Rank rank = base::kNoRank;
  std::string path;
};

// The dumps of `dir`, ordered by rank. If there are several prefixes, the one with the most files counts; on
// a tie, the first by name. Empty if the directory holds none. Reads only names, types and first bytes of
// files.
std::vector<FlightFile> find_flight_files(const std::string& dir);

struct FlightFacts {
  model::CollectiveFacts facts;
  int world_size = 0;              // 1 + the highest rank in a file name or a group; 0: unknown
  std::vector<base::Rank> silent;  // members of a group without a readable dump
  std::vector<std::string> notes;  // unreadable files, with the reason
};

// `taken_ns`: time of the dumps (UTC, ns), 0 if unknown.
FlightFacts read_flight_files(const std::vector<FlightFile>& files, int64_t taken_ns = 0);

}  // namespace xpurun::report
