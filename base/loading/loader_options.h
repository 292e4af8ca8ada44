// What whoever trains asks of a loader, whatever the data set.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// What to do about a sample that cannot be read.
enum class OnBadSample {
  error,    ///< end the run, naming the sample and the reason
  skip,     ///< leave it out: its batch is smaller; one without any ends a training, else is empty
  replace,  ///< take the next good sample of the epoch in its place
};

/// The words that recipes and command lines have for them.
inline const std::map<std::string, OnBadSample> on_bad_sample_words{
    {"error", OnBadSample::error}, {"skip", OnBadSample::skip}, {"replace", OnBadSample::replace}};

inline const std::string& on_bad_sample_word(OnBadSample what) {
  return std::ranges::find(on_bad_sample_words, what, [](const auto& one) { return one.second; })
      ->first;
}

/// One side of a set that is made two, class by class. The sides share no sample, whatever the
/// batches and threads.
struct Split {
  double val = 0;  ///< share that is evaluated on, above 0 and below 1
  uint64_t seed = 1;
  bool evaluation = false;  ///< the side: what is evaluated on, else what is trained on
};

/// Samples that are decoded when a set is opened, and handed out in place of all others.
struct DecodedSamples {
  int64_t most;
  int64_t kept = 0;  ///< how many there are, once the set is open
};

struct LoaderOptions {
  int64_t batch_size = 1;
  uint64_t seed = 0;
  int64_t num_workers = 1;      ///< threads that read and decode; 0 = in the calling thread
  int64_t prefetch_factor = 2;  ///< batches kept ready
  bool pin_memory = false;      ///< page-locked batches; only where there is a GPU
  OnBadSample on_bad_sample = OnBadSample::error;
  std::string resize_filter = "triangle";  ///< or "area"
  bool ffcv_exact = false;                 ///< decode, crop and resize to the bytes that FFCV gives
  std::string crop_index = "cache";  ///< where crop indices are kept: "beside", "cache", "off"
  std::string index_dir{};           ///< the cache's folder; empty: the user's
  double coefficient_cache = 0;      ///< GB for coefficients of JPEGs, kept there too; 0: none
  int64_t rank = 0;                  ///< gets slice `rank` of `world_size` of each batch
  int64_t world_size = 1;
  /// Ends each epoch after this many batches; a warning when it has fewer.
  std::optional<int64_t> subset_num_batches = std::nullopt;
  std::optional<Split> split = std::nullopt;  ///< of the data's training part; none = all samples
  /// In order of their index, for messages, and for sets that find_classes_by_name(); may be empty.
  std::vector<std::string> class_names{};
  bool tells = true;        ///< warn of what all ranks find; of several processes one does
  bool makes_files = true;  ///< a set may write or copy what it is told to; false: what lies there
  bool cold = false;        ///< to measure: each sample leaves the system's cache before it is read
  std::shared_ptr<DecodedSamples> decoded{};  ///< to measure what decoding costs; null: none
};

}  // namespace composer
