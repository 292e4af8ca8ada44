// Sections on images: what the network was trained with, what it was wrong about, and the confusion
// matrix.
#pragma once

#include <string>

#include "analysis/run.h"

namespace composer {

/// The training images as the network saw them.
std::string training_pictures(const Run& run);

/// The images of the last evaluation with the highest loss, with the classes that they were taken
/// for.
std::string wrong_pictures(const Run& run);

/// Base64 as in RFC 4648.
std::string base64(std::string_view bytes);

/// Accuracy of each class, worst first (of many classes the worst), the confusion matrix (of up to
/// 40 classes), and which classes are most often taken for which; the cells as JSON in a <script
/// class="confusion-cells">.
std::string confusion_section(const Run& run);

}  // namespace composer
