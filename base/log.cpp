#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/terminal.h"
#include "base/url_secrets.h"

namespace composer::log {
namespace {

/// Formats a message for standard error.
class ForTerminal : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const auto text = wrapped_for(STDERR_FILENO, {message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<ForTerminal>();
  }
};

spdlog::logger& logger() {
  // Never destroyed: threads that nobody joins may still log.
  static auto* const instance = [] {
    const auto colors =
        shows_colors(STDERR_FILENO) ? spdlog::color_mode::always : spdlog::color_mode::never;
    auto made = std::make_unique<std::shared_ptr<spdlog::logger>>(
        spdlog::stderr_color_mt("composer", colors));
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<ForTerminal>('*').set_pattern("%^%*%$");
    (*made)->set_formatter(std::move(formatter));
    return made.release();
  }();
  return **instance;
}

std::mutex terminal;  ///< guards the status line and the lines around it
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
  logger().log(level, "{}", without_secrets(line));
}

}  // namespace

void info(const std::string& message) { write(spdlog::level::info, message); }

void info_once(const std::string& message) {
  static std::mutex guard;
  static std::set<std::string> told;
  const std::lock_guard lock(guard);
  if (told.insert(message).second) info(message);
}

void warn(const std::string& message) { write(spdlog::level::warn, "warning: " + message); }
void error(const std::string& message) { write(spdlog::level::err, message); }
void quiet() { logger().set_level(spdlog::level::warn); }

void also_in(const std::filesystem::path& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%v");
    const std::lock_guard lock(terminal);
    logger().sinks().push_back(std::move(sink));
    logger().flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& problem) {
    warn(std::string("the log is not kept: ") + problem.what());
  }
}

bool kept_in_file() {
  const std::lock_guard lock(terminal);
  return logger().sinks().size() > 1;
}

void leave_terminal() {
  status("");
  logger().sinks().front()->set_level(spdlog::level::off);
}

void status(const std::string& line) {
  const std::lock_guard lock(terminal);
  write_status(line);
}

}  // namespace composer::log
