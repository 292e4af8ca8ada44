// What a network takes for what, as markup.
#pragma once

#include <string>

#include "analysis/run.h"

namespace composer {

/// Accuracy of each class, worst first (of many classes the worst), the confusion matrix (of up to
/// 40 classes), and which classes are most often taken for which; the cells as JSON in a <script
/// class="confusion-cells">.
std::string confusion_section(const Run& run);

}  // namespace composer
