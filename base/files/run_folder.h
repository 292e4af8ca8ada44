// <run_dir>/<run_name>/: the folder of everything that a run writes.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/files/mailbox.h"
#include "base/time.h"

namespace composer {

/// The result of a run: summary.json.
struct Summary {
  std::string status = "failed";  ///< completed, interrupted or failed
  std::string message;            ///< RunEnd's message
  std::string stopped;            ///< why a completed run ended before its length
  int signal = 0;                 ///< the signal that interrupted it
  Timestamp time;
  /// The speed of training, without evaluation, checkpoints and the first batches.
  double samples_per_second = 0;
  /// The share of the training time without data; nothing after too few batches.
  std::optional<double> wait_fraction;
  std::map<std::string, double> metrics;
  struct Best {
    double value;
    int64_t batch;  ///< the batch after which it was reached
  };
  std::map<std::string, Best> best_metrics;
  std::string device, precision;
  int64_t world_size = 1;
  int64_t grad_accum = 1;  ///< the value at the end of the run
  int64_t peak_memory_bytes = 0;

  /// The bottleneck: "step" when wait_fraction is below 0.05, "data" from 0.25 on, "step and data"
  /// between; empty without a wait_fraction.
  std::string limited_by() const;
};

class RunFolder {
 public:
  /// An empty run_name means a new, unique one; an empty run_dir means that nothing is kept on the
  /// disk. Touches no file. UserError when the folder exists and the run does not resume, unless
  /// the folder's run ended before it had trained a batch.
  RunFolder(const std::string& run_dir, std::string run_name, bool resume);

  bool kept() const { return kept_; }
  const std::string& run_name() const { return run_name_; }
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Makes the folder and locks it against other processes, and other runs of this process, while
  /// the Mailbox lives; null when nothing is kept. UserError when another run holds the folder,
  /// when it exists as for the constructor, or when it cannot be made.
  std::unique_ptr<Mailbox> claim() const;
  /// Writes hparams.yaml, the resolved recipe, into the claimed folder; nothing for an empty
  /// recipe.
  void write_recipe(const std::string& recipe) const;
  /// The earlier result: its status, batches (-1 when missing), speed, wait_fraction and peak
  /// memory. Nothing without a readable summary.
  std::optional<Summary> read_summary() const;
  /// Writes summary.json, with the local time as "ended".
  void write_summary(const Summary& summary) const;
  /// Removes summary.json, as the run resumes.
  void remove_summary() const;

 private:
  bool trained_nothing() const;

  std::string run_name_;
  std::filesystem::path path_;
  bool kept_, resume_;
};

}  // namespace composer
