// Names of the callbacks that a Trainer adds to the recipe's, which are also the names of their
// ranges.
#pragma once

namespace composer::own_callbacks {

inline constexpr const char* save_interval = "save_interval";
inline constexpr const char* ranks = "ranks";
inline constexpr const char* histograms = "histograms";
inline constexpr const char* evaluation_recorder = "evaluation_recorder";
inline constexpr const char* run_times = "run_times";

inline constexpr const char* all[] = {save_interval, ranks, histograms, evaluation_recorder,
                                      run_times};

}  // namespace composer::own_callbacks
