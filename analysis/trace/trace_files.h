// Which files hold the traces of a run's ranks.
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
  std::vector<std::filesystem::path> older;  ///< of the same ranks, left out
};

/// The traces that `paths` name: files, folders of them, and folders of runs, whose traces/ is
/// meant. A rank is what a trace's distributedInfo says, else the number behind "rank" in its
/// file's name, else the first that is free. Of several traces of a rank in a folder the one of the
/// last step is taken, by the number in front of .pt.trace.json, or without such numbers the one
/// written last. UserError where there are no traces, or two named files are of the same rank.
TraceFiles find_traces(const std::vector<std::filesystem::path>& paths);

}  // namespace composer
