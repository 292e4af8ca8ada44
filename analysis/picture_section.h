// Pictures of a run's folder, as markup that holds their bytes.
#pragma once

#include <string>

#include "analysis/run.h"

namespace composer {

/// The images that the network was trained with, as it saw them.
std::string training_pictures(const Run& run);

/// After which epoch and step the run's record of an evaluation was made, and of what share.
std::string evaluation_note(const EvaluationRecord& record);

/// Those of the last evaluation that it was most wrong about, with what it took them for.
std::string wrong_pictures(const Run& run);

/// RFC 4648.
std::string base64(std::string_view bytes);

}  // namespace composer
