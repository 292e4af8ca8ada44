// <run_dir>/<run_name>/: the one place where a run leaves what it made.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/files/mailbox.h"
#include "base/time.h"

namespace composer {

/// What a run came to: summary.json.
struct Summary {
  std::string status = "failed";  ///< completed, interrupted or failed
  std::string message;            ///< RunEnd's
  std::string stopped;            ///< why it ended before its length, completed as it is
  int signal = 0;                 ///< what interrupted it
  Timestamp time;
  /// The speed of training, without evaluation, checkpoints and the first batches.
  double samples_per_second = 0;
  /// The share of the training time without data; nothing after too few batches.
  std::optional<double> wait_fraction;
  std::map<std::string, double> metrics;
  struct Best {
    double value;
    int64_t batch;  ///< after which it was reached
  };
  std::map<std::string, Best> best_metrics;
  std::string device, precision;
  int64_t world_size = 1;
  int64_t grad_accum = 1;  ///< at the end
  int64_t peak_memory_bytes = 0;

  /// What limited it: "step" where it waited for less than 5 % of the time, "data" from 25 % on,
  /// "step and data" between; empty where that is not known.
  std::string limited_by() const;
};

class RunFolder {
 public:
  /// An empty run_name stands for a new, unique one, an empty run_dir for leaving nothing on the
  /// disk. Touches no file. UserError when the folder exists already and the run does not resume,
  /// unless it is of one that ended before it had trained a batch.
  RunFolder(const std::string& run_dir, std::string run_name, bool resume);

  bool kept() const { return kept_; }
  const std::string& run_name() const { return run_name_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Makes the folder and keeps other processes, and other runs of this one, out of it as long as
  /// the lock lives; null when nothing is kept. UserError when another has it, when it exists
  /// already, as above, or when it cannot be made.
  std::unique_ptr<Mailbox> claim() const;
  /// Writes hparams.yaml (the resolved recipe; empty: none) into the folder, which is claimed.
  void write_recipe(const std::string& recipe) const;
  /// What the run came to before: its status, its batches (-1: not told), and what was measured
  /// while it trained. Nothing where there is no summary that can be read.
  std::optional<Summary> read_summary() const;
  /// With the time of day, "ended".
  void write_summary(const Summary& summary) const;
  /// The run goes on: what it came to is not known any more.
  void remove_summary() const;

 private:
  bool trained_nothing() const;

  std::string run_name_;
  std::filesystem::path path_;
  bool kept_, resume_;
};

}  // namespace composer
