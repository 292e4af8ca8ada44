#include "composer/logging/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace composer::log {
namespace {

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_color_mt("composer");
    made->set_pattern("%^%v%$");
    return made;
  }();
  return *instance;
}

}  // namespace

void info(const std::string& message) { logger().info("{}", message); }
void warn(const std::string& message) { logger().warn("warning: {}", message); }
void error(const std::string& message) { logger().error("{}", message); }
void quiet() { logger().set_level(spdlog::level::warn); }

}  // namespace composer::log
