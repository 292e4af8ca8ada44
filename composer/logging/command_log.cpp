#include "composer/logging/command_log.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/params/json.h"
#include "base/process/signals.h"
#include "base/text.h"
#include "composer/logging/sinks.h"

namespace composer {
namespace {

/// Seconds that a group of records may wait for a command that does not read.
constexpr double patience = 1;

/// Longest seconds between two checks of whether the command has exited.
constexpr double longest_sleep = 0.05;

/// Replaces bytes that are not UTF-8, which a path may have.
std::string line_of(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// The number of bytes in a pipe that are not read yet; 0 if unknown.
int64_t unread_bytes(int pipe) {
  int bytes = 0;
  return pipe >= 0 && ::ioctl(pipe, FIONREAD, &bytes) == 0 ? bytes : 0;
}

}  // namespace

void CommandLog::open(const RunInfo& info) {
  Command command{"/bin/sh", {"-c", params_.run}, {}, {}};
  // A package's launcher puts LibTorch in front (packaging/launcher.in).
  if (const char* const path = std::getenv("COMPOSER_LD_LIBRARY_PATH"))
    command.environment["LD_LIBRARY_PATH"] = path;
  command.takes_input = true;
  child_.emplace(command,
                 [](Stream, std::string_view line) { log::info("command: " + std::string(line)); });
  lines_.emplace(child_->input());
  add(line_of({{"event", "start"},
               {"run_name", info.run_name},
               {"folder", info.folder.string()},
               {"epoch", info.start.epoch},
               {"batch", info.start.batch},
               {"recipe", recipe_json(info.recipe)}}));
  write_lines();
}

void CommandLog::write(const Record& record) { add(line_of(json_of(record))); }

void CommandLog::flush() {
  if (!child_ || !child_->running()) return;
  const bool served = serve(stuck_ ? 0 : patience);
  stuck_ = !served;
  if (!child_->running()) throw RunError(how_it_ended());
  if (!served) throw RunError("'" + params_.run + "' does not read what it is given");
}

void CommandLog::add(const std::string& line) {
  const bool takes = child_ && child_->running() && !lines_->full();
  dropped_ += takes ? 0 : 1;
  if (takes) lines_->add("", line);
}

bool CommandLog::serve(double seconds) {
  const double deadline = steady_seconds() + seconds;
  for (;;) {
    write_lines();
    child_->read(Stream::output), child_->read(Stream::errors);
    const bool open = child_->input() >= 0;
    if (!child_->poll() || (open && !lines_->waits())) return true;
    const double left = deadline - steady_seconds();
    if (left <= 0) return false;
    const auto& outputs = child_->outputs();
    pollfd files[] = {{open ? child_->input() : -1, POLLOUT, 0},
                      {outputs[0], POLLIN, 0},
                      {outputs[1], POLLIN, 0}};
    ::poll(files, 3, static_cast<int>(std::min(left, longest_sleep) * 1000) + 1);
  }
}

void CommandLog::write_lines() {
  const NoBrokenPipe guard;
  if (child_->input() >= 0) lines_->write();
}

std::string CommandLog::how_it_ended() const {
  return "'" + params_.run + "' has ended with status " + std::to_string(child_->status());
}

void CommandLog::run_end(const RunEnd& end) {
  if (!child_) return;
  add(line_of({{"event", "end"}, {"status", end.status}, {"message", end.message}}));
  bool served = true;
  if (child_->running()) served = serve(params_.end_seconds / 2);
  const auto unread = unread_bytes(child_->input());
  child_->close_input();
  if (child_->running()) served = serve(params_.end_seconds) && served;
  std::vector<std::string> problems;
  if (child_->running())
    problems.push_back("'" + params_.run + "' did not end and was killed" +
                       (unread > 0 ? ", of what it was given it had not read the last " +
                                         std::to_string(unread) + " bytes"
                                   : ""));
  else if (child_->status() != 0)
    problems.push_back(how_it_ended());
  if (!served && problems.empty()) problems.push_back("'" + params_.run + "' read too slowly");
  lines_->give_up();
  if (const auto dropped = dropped_ + lines_->dropped(); dropped > 0)
    problems.push_back(std::to_string(dropped) + " lines did not reach it");
  child_.reset();
  if (!problems.empty()) throw RunError(joined(problems, "; "));
}

}  // namespace composer
