// A run as read from its folder, finished or going on, and its metrics.jsonl.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace composer {

/// One line: the values logged at one point of the run.
struct LogEntry {
  std::string event;                         ///< "batch", "epoch", "eval" or "save"
  int64_t epoch = 0, batch = 0, sample = 0;  ///< numbers trained so far
  double seconds = 0;                        ///< seconds since the run began, with evaluation
  std::map<std::string, double> values;      ///< values by metric; may be NaN or infinite
};

struct RunLog {
  std::vector<LogEntry> entries;
  int64_t damaged = 0;        ///< number of lines that are no entries
  int64_t first_damaged = 0;  ///< line number of the first of them, from 1
};

/// The entries of `file` in order. An incomplete last line, which a run leaves that goes on or was
/// killed, is left out. UserError if the file cannot be read, or has lines but no entry.
RunLog read_run_log(const std::filesystem::path& file);

/// Follows metrics.jsonl. It reads each line once, until a resumed run replaces the file.
class RunLogTail {
 public:
  explicit RunLogTail(std::filesystem::path file) : file_(std::move(file)) {}

  /// Appends the new entries to `log`, which holds all earlier ones, and returns whether there were
  /// any. A file that does not exist yet has no entries. Lines that are no entries are left out.
  bool update(std::vector<LogEntry>& log);

 private:
  std::filesystem::path file_;
  ino_t inode_ = 0;
  int64_t position_ = 0;  ///< bytes read so far, in whole lines
};

/// summary.json, which a run writes at its end.
struct RunSummary {
  struct Best {
    double value;
    int64_t batch;
  };

  std::string status, message;  ///< message: what ended a failed or interrupted run
  std::string stopped;          ///< why a completed run ended before its full length
  std::string ended;            ///< date and time; empty for older runs
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

  std::string began, host;          ///< date and time, machine; both empty for older runs
  std::vector<std::string> header;  ///< lines for people: "device: ..."
  std::vector<std::string> class_names;
  std::vector<Surgery> surgery;
  std::optional<int64_t> total_batches;  ///< empty if the run's length is in seconds
};

/// evaluation.json, of the last evaluation.
struct EvaluationRecord {
  struct Cell {
    int64_t label, taken_for, count;
  };
  struct Wrong {
    std::filesystem::path image;  ///< path in the run's folder
    int64_t label;
    double loss, probability;                        ///< probability: that of the label
    std::vector<std::pair<int64_t, double>> likely;  ///< class and probability, likeliest first
    std::string path{};               ///< the sample's name in its data set; may be empty
    std::optional<int64_t> sample{};  ///< the sample's number in its data set
  };

  int64_t epoch = 0, batch = 0, num_classes = 0;
  std::vector<Cell> confusion;  ///< cells that are not 0
  std::vector<Wrong> wrong;     ///< highest loss first
  bool all_ranks = true;        ///< false: `wrong` covers the first rank's share only
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
  std::vector<RunImage> training_images;  ///< images as the network saw them
  std::vector<std::string> missing;       ///< names of files that are not there
  std::vector<std::string> damage;        ///< a message per damaged file or part that was left out
  bool going_on = false;                  ///< a process trains the run; set by the caller

  /// "going on", the summary's status, or "killed" without a summary.
  std::string status() const;
  LogEntry last() const;  ///< all zero if nothing is logged
  std::string class_name(int64_t index) const;
  /// The text behind `key`, for example "network", in the run's header; empty without such a line.
  std::string told(const std::string& key) const;
};

/// UserError if `folder` is no folder or its metrics.jsonl cannot be read at all. Other damaged
/// files are left out and named in `damage`.
Run read_run(const std::filesystem::path& folder);
/// As read_run(), without the log.
Run read_run_papers(const std::filesystem::path& folder);

/// Makes the runs' names distinct: the folder's name with as many parent folders as that takes.
void name_apart(std::vector<Run>& runs);

}  // namespace composer
