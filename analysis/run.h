// A run as its folder tells it, finished or going on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/run_log.h"

namespace composer {

/// summary.json, which a run writes at its end.
struct RunSummary {
  struct Best {
    double value;
    int64_t batch;
  };

  std::string status, message;  ///< message: of a failed or interrupted run what ended it
  std::string stopped;          ///< why a completed one ended before its length
  std::string ended;            ///< time of day; empty of older runs
  int64_t epochs = 0, batches = 0, samples = 0;
  double seconds = 0, samples_per_second = 0;
  std::optional<double> wait_fraction;
  std::string limited_by, device, precision, version;
  int64_t world_size = 1, peak_memory_bytes = 0;
  std::map<std::string, double> metrics;
  std::map<std::string, Best> best_metrics;
};

/// about.json, which a run writes at its beginning.
struct RunDescription {
  struct Surgery {
    std::string algorithm;
    std::vector<std::string> changes;
  };

  std::string began, host;          ///< time of day; both empty of older runs
  std::vector<std::string> header;  ///< lines for people: "device: ..."
  std::vector<std::string> class_names;
  std::vector<Surgery> surgery;
  std::optional<int64_t> total_batches;  ///< nothing where the run's length is in seconds
};

/// evaluation.json, of the last evaluation.
struct EvaluationRecord {
  struct Cell {
    int64_t label, taken_for, count;
  };
  struct Wrong {
    std::filesystem::path image;  ///< in the run's folder
    int64_t label;
    double loss, probability;                        ///< of the label
    std::vector<std::pair<int64_t, double>> likely;  ///< class and probability, likeliest first
    std::string path{};               ///< what its set calls the sample; may be empty
    std::optional<int64_t> sample{};  ///< its number there
  };

  int64_t epoch = 0, batch = 0, num_classes = 0;
  std::vector<Cell> confusion;  ///< cells that are not 0
  std::vector<Wrong> wrong;     ///< highest loss first
  bool all_ranks = true;        ///< else `wrong` is of the first rank's share
};

/// A picture in the run's folder.
struct RunImage {
  std::filesystem::path file;
  std::string caption;
};

/// A key of a recipe, dotted, and its value on one line.
using RecipeKeys = std::vector<std::pair<std::string, std::string>>;

struct Run {
  std::string name;
  std::filesystem::path folder;
  std::vector<LogEntry> log;
  std::optional<RunSummary> summary;
  std::string recipe_text;  ///< hparams.yaml
  RecipeKeys recipe;
  std::optional<RunDescription> description;
  std::optional<EvaluationRecord> evaluation;
  std::vector<RunImage> training_images;  ///< as the network saw them
  std::vector<std::string> missing;       ///< names of files that are not there
  std::vector<std::string> damage;        ///< what was left out of damaged files, a line each
  bool going_on = false;                  ///< a process trains it: for the caller to find out

  /// "going on", what the summary says, or "killed" where there is none.
  std::string status() const;
  LogEntry last() const;  ///< all zero where nothing is logged
  std::string class_name(int64_t index) const;
  /// Of the line of its header that begins with `key`: "network"; empty where there is none.
  std::string told(const std::string& key) const;
};

/// UserError where `folder` is none, or its metrics.jsonl cannot be read at all. What is damaged
/// besides is left out, and named in `damage`.
Run read_run(const std::filesystem::path& folder);
/// The same without its log.
Run read_run_papers(const std::filesystem::path& folder);

/// What sets several runs apart: their folders' names, with as much of the path before it as that
/// takes.
void name_apart(std::vector<Run>& runs);

}  // namespace composer
