// The description of a run, in its folder and on the terminal.
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

/// Writes <folder>/about.json: header (lines of text), class_names (may be empty), surgery (the
/// changes of each algorithm that changed the network), batches_per_epoch and total_batches (null
/// if the run's length is in seconds), host, and began, the time of the run's first start. RunError
/// if it cannot be written.
void write_run_description(const std::filesystem::path& folder,
                           const std::vector<std::string>& header,
                           const std::vector<std::string>& class_names,
                           const std::vector<Member<Algorithm>>& algorithms,
                           const RunLength& run_length);

/// "evaluation v2: 10000 samples of 224x224".
std::string evaluation_line(const Loader& loader, const std::string& set);

/// The first lines of a training run: device, network, data, length and folder. evaluation: may be
/// null. folder: empty without a run folder.
std::vector<std::string> run_header(const State& state, const TrainerOptions& options,
                                    const Loader& training, const Loader* evaluation,
                                    const std::filesystem::path& folder, const RunContext& context);

}  // namespace composer
