// Metrics as people call them.
#pragma once

#include <string>

namespace composer {

/// "metrics/eval/Accuracy" of "metrics/v2/Accuracy".
std::string same_of_main(const std::string& metric);

/// "evaluation accuracy" of "metrics/eval/Accuracy", "evaluation accuracy on v2" of
/// "metrics/v2/Accuracy"; a name that is not known stays.
std::string metric_label(const std::string& metric);

/// So many digits after the point give a value of this size four in all; at most 6.
int decimals_for(double size);

/// "22.46 %" of a share; of others the value with so many digits after the point.
std::string metric_figure(const std::string& metric, double value, int decimals);

}  // namespace composer
