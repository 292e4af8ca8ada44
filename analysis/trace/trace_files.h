// Finds the files with the traces of a run's ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace composer {

/// The trace of one rank.
struct TraceFile {
  int64_t rank = 0;
  std::filesystem::path path;
};

/// One file a rank, by rank.
struct TraceFiles {
  std::vector<TraceFile> files;
  std::vector<std::filesystem::path> left_out;  ///< files of other steps of the same ranks
  std::vector<std::string> warnings;            ///< a message per file of a folder that is no trace
};

/// The traces that `paths` name: files, folders of traces, and folders of runs, which have a
/// traces/. The rank is the one in the trace's distributedInfo before its events, else the number
/// behind "rank" in the file's name, else the first free number. If a folder has several traces of
/// a rank (without a rank: several names that differ only in the step), the trace of the last step
/// that all ranks have is taken, by the number before .pt.trace.json; without such a step each
/// rank's last trace, and without such numbers the file written last. Hidden files of folders are
/// ignored. UserError if there are no traces, or two named files have the same rank.
TraceFiles find_traces(const std::vector<std::filesystem::path>& paths);

}  // namespace composer
