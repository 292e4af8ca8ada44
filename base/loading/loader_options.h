// Options of a loader, the same for all data sets.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// The effect of a sample that cannot be read.
enum class OnBadSample {
  error,    ///< ends the run with an error that names the sample and the reason
  skip,     ///< its batch is smaller; a batch without samples ends a training, else is empty
  replace,  ///< the next good sample of the epoch takes its position
};

/// The words of recipes and command lines.
inline const std::map<std::string, OnBadSample> on_bad_sample_words{
    {"error", OnBadSample::error}, {"skip", OnBadSample::skip}, {"replace", OnBadSample::replace}};

inline const std::string& on_bad_sample_word(OnBadSample what) {
  return std::ranges::find(on_bad_sample_words, what, [](const auto& one) { return one.second; })
      ->first;
}

/// One side of a data set that is split in two, class by class. The sides share no sample.
struct Split {
  double val = 0;  ///< the share of samples for evaluation, above 0 and below 1
  uint64_t seed = 1;
  bool evaluation = false;  ///< true: the evaluation side; false: the training side
};

/// Samples that are decoded when a data set is opened, and returned in place of all others.
struct DecodedSamples {
  int64_t most;
  int64_t kept = 0;  ///< the number of decoded samples, once the data set is open
};

struct LoaderOptions {
  int64_t batch_size = 1;
  uint64_t seed = 0;
  int64_t num_workers = 1;      ///< threads that read and decode; 0 = in the calling thread
  int64_t prefetch_factor = 2;  ///< batches kept ready
  bool pin_memory = false;      ///< page-locked batches; only where there is a GPU
  OnBadSample on_bad_sample = OnBadSample::error;
  std::string resize_filter = "triangle";  ///< or "bicubic", "area"
  bool ffcv_exact = false;                 ///< decode, crop and resize to the same bytes as FFCV
  std::string crop_index = "cache";  ///< the location of crop indices: "beside", "cache", "off"
  std::string index_dir{};           ///< the cache's folder; empty: the user's cache folder
  double coefficient_cache = 0;      ///< GB for coefficients of JPEGs in that folder; 0: none
  int64_t rank = 0;                  ///< gets slice `rank` of `world_size` of each batch
  int64_t world_size = 1;
  /// Ends each epoch after this many batches; a warning when it has fewer.
  std::optional<int64_t> subset_num_batches = std::nullopt;
  std::optional<Split> split = std::nullopt;  ///< one side of the training part; none: all of it
  /// By class index, for messages, and for data sets that find_classes_by_name(); may be empty.
  std::vector<std::string> class_names{};
  bool tells = true;        ///< true: log the warnings that all ranks would log; one process does
  bool makes_files = true;  ///< true: may write and copy files; false: uses existing files only
  bool cold = false;        ///< for measuring: drops each sample from the page cache first
  std::shared_ptr<DecodedSamples> decoded{};  ///< for measuring the cost of decoding; null: none
};

}  // namespace composer
