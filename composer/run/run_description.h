// What a run is, for those who look at its folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/time.h"
#include "composer/loop/engine.h"

namespace composer {

/// Writes <folder>/about.json: header (lines for people), class_names (may be empty), surgery (of
/// each algorithm that changed the network, what it did), batches_per_epoch and total_batches (null
/// where the run's length is in seconds), host, and began, the time of day at which the run did so
/// first. RunError when it cannot be written.
void write_run_description(const std::filesystem::path& folder,
                           const std::vector<std::string>& header,
                           const std::vector<std::string>& class_names,
                           const std::vector<Member<Algorithm>>& algorithms,
                           const RunLength& run_length);

}  // namespace composer
