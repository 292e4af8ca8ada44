// What a run is, for those who look at its folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/run_context.h"
#include "base/time.h"
#include "composer/loop/engine.h"
#include "composer/loop/loader.h"
#include "composer/loop/state.h"
#include "composer/recipe/options.h"

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

/// "evaluation v2: 10000 samples of 224x224".
std::string evaluation_line(const Loader& loader, const std::string& set);

/// Device, network, data, length and place of a training run that is ready to start. evaluation:
/// may be null. folder: empty when nothing is kept.
std::vector<std::string> run_header(const State& state, const TrainerOptions& options,
                                    const Loader& training, const Loader* evaluation,
                                    const std::filesystem::path& folder, const RunContext& context);

}  // namespace composer
