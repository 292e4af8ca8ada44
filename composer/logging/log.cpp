#include "composer/logging/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

#include "composer/logging/terminal.h"

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

std::mutex terminal;  ///< guards the status line and what is written around it
bool status_shown = false;

void write_status(const std::string& line) {
  if (line.empty() && !status_shown) return;
  std::fputs(("\r\x1b[K" + line).c_str(), stderr);
  std::fflush(stderr);
  status_shown = !line.empty();
}

void write(spdlog::level::level_enum level, const std::string& line) {
  if (!logger().should_log(level)) return;
  const std::lock_guard lock(terminal);
  write_status("");
  logger().log(level, "{}", line);
}

}  // namespace

void info(const std::string& message) { write(spdlog::level::info, message); }
void info_wrapped(const std::string& message) {
  if (isatty(STDERR_FILENO) != 1) return info(message);
  for (const auto& line : wrapped(message, terminal_columns())) info(line);
}

void warn(const std::string& message) { write(spdlog::level::warn, "warning: " + message); }
void error(const std::string& message) { write(spdlog::level::err, message); }
void quiet() { logger().set_level(spdlog::level::warn); }

void status(const std::string& line) {
  const std::lock_guard lock(terminal);
  write_status(line);
}

}  // namespace composer::log
