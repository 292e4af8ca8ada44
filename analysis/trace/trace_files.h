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
  std::vector<std::filesystem::path> left_out;  ///< of the same ranks and other steps
  std::vector<std::string> warnings;            ///< files of folders that are no traces
};

/// The traces that `paths` name: files, folders of them, and folders of runs, whose traces/ is
/// meant. A rank is what a trace's distributedInfo says in front of its events, else the number
/// behind "rank" in its file's name, else the first that is free. Of several traces of a rank in a
/// folder (without a rank: several whose names differ in the step alone) the one of the last step
/// that all ranks have is taken, by the number in front of .pt.trace.json; where there is none,
/// each rank's last, and without such numbers the one written last. Of folders, hidden files are
/// not looked at. UserError where there are no traces, or two named files are of the same rank.
TraceFiles find_traces(const std::vector<std::filesystem::path>& paths);

}  // namespace composer
