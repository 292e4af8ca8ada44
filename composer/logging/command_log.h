// A logger that hands values to a program of the user.
#pragma once

#include <optional>
#include <string>

#include "base/params/params.h"
#include "base/process/child.h"
#include "base/process/line_writer.h"
#include "composer/logging/records.h"

namespace composer {

/// Starts a command and writes JSON lines into its standard input: first {"event": "start", ...}
/// with the run's name, folder and recipe, then each record as metrics.jsonl has it, last {"event":
/// "end", "status": ..., "message": ...}. The command's output goes into the log. A command that
/// exits early or hangs causes one warning. At the end of the run it has some seconds to exit, then
/// it is killed.
class CommandLog : public LogSink {
 public:
  struct Params {
    std::string run;
    double end_seconds = 5;
    void fields(auto&& f) {
      f("run", run, "a command for sh, for instance 'python wandb_log.py'", required);
      f("end_seconds", end_seconds, "how long it may take to end after its last line", in(0, 5));
    }
    std::string check() const { return run.empty() ? "run: must be a command\n" : ""; }
  };
  explicit CommandLog(Params params) : params_(std::move(params)) {}

  std::string name() const override { return "command"; }
  void open(const RunInfo& info) override;
  void write(const Record& record) override;
  void flush() override;
  void run_end(const RunEnd& end) override;

 private:
  void add(const std::string& line);
  /// Writes and reads until the command has all lines (if its input is closed: until it exits), or
  /// has exited. False if that takes longer than `seconds`.
  bool serve(double seconds);
  void write_lines();
  std::string how_it_ended() const;

  Params params_;
  std::optional<Child> child_;
  std::optional<LineWriter> lines_;
  int64_t dropped_ = 0;  ///< lines that were not handed to lines_
  bool stuck_ = false;   ///< the command did not take all of the last group in time
};

}  // namespace composer
