// The Flight Recorder dumps of a directory: one file a rank, "<prefix><rank>" as torch writes them, or
// "<prefix><rank>.json". Read with a few threads: a job has up to 1,024 ranks, and a file up to 256 MiB.
#pragma once

#include "common/model/collectives.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct FlightFile {
  base::Rank rank = base::kNoRank;
  std::string path;
};

// The dumps of `dir`, by rank. Of several prefixes the one with the most files counts; equal numbers: the
// first by name. Empty if the directory holds none. Only names, types and first bytes of files are looked at.
std::vector<FlightFile> find_flight_files(const std::string& dir);

struct FlightFacts {
  model::CollectiveFacts facts;
  int world_size = 0;              // 1 + the highest rank that a file or a group names; 0: nothing is known
  std::vector<base::Rank> silent;  // members of a group without a readable dump
  std::vector<std::string> notes;  // files that could not be read, with the reason
};

// `taken_ns`: the moment of the dumps (UTC), 0 if unknown.
FlightFacts read_flight_files(const std::vector<FlightFile>& files, int64_t taken_ns = 0);

}  // namespace xpurun::report
