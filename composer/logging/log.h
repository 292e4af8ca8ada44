// The log: lines for people on standard error.
#pragma once

#include <string>

namespace composer::log {

void info(const std::string& message);
void warn(const std::string& message);
void error(const std::string& message);

/// Hides info lines.
void quiet();

}  // namespace composer::log
