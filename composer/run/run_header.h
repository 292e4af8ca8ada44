// The first lines of a run on the terminal.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/run_context.h"
#include "composer/loop/loader.h"
#include "composer/loop/state.h"
#include "composer/recipe/options.h"

namespace composer {

/// "evaluation v2: 10000 samples of 224x224".
std::string evaluation_line(const Loader& loader, const std::string& set);

/// Device, network, data, length and place of a training run that is ready to start. evaluation:
/// may be null. folder: empty when nothing is kept.
std::vector<std::string> run_header(const State& state, const TrainerOptions& options,
                                    const Loader& training, const Loader* evaluation,
                                    const std::filesystem::path& folder, const RunContext& context);

}  // namespace composer
