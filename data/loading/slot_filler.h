// The work of a loader's thread: reading, decoding and augmenting single images into batch slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/loading/pixel_normalizer.h"
#include "data/index/index_store.h"
#include "data/loading/batch_loader.h"
#include "data/loading/slot_queue.h"
#include "data/samples/transform.h"

namespace composer {

/// Names in the log the samples of a loader that cannot be read. Functions may be called by several
/// threads at once.
class BadSampleLog {
 public:
  /// most: the number of samples that the log names.
  BadSampleLog(OnBadSample on_bad_sample, size_t most)
      : on_bad_sample_(on_bad_sample), most_(most) {}

  /// what: the sample's name and the reason. Each sample is named once.
  void add(const std::string& what);

  /// Logs how many of all `samples` were skipped, where that number has grown since the last call.
  /// Throws RunError if all were skipped. `most` must be large enough for all of them.
  void sum_up(int64_t samples);

 private:
  const OnBadSample on_bad_sample_;
  const size_t most_;
  std::mutex lock_;
  std::set<std::string> added_;
  int64_t reported_ = 0;  ///< bad samples at the last sum_up()
};

/// What a loader's threads share. The referenced objects must outlive the threads.
struct FillPlan {
  const Source& source;
  ReadAhead* ahead = nullptr;                ///< null where nothing is read ahead
  IndexStore* indices = nullptr;             ///< null where no crop indices are kept
  CoefficientStore* coefficients = nullptr;  ///< null where no coefficients are kept
  const ImageLoaderOptions& options;
  const LoaderOptions& common;
  int64_t epoch_samples = 1;
  bool repeats = false;  ///< an epoch may have a sample more than once
  const PixelNormalizer& normalizer;
  BadSampleLog& bad_samples;
};

/// Fills slots, for one thread. Profilers of user-scope ranges see its work as read, decode,
/// augment and collate.
class SlotFiller {
 public:
  explicit SlotFiller(const FillPlan& plan);

  /// Writes the task's images and targets into its slot, until a sample fails or the slot is
  /// dropped. The task gets the failure, and the offsets of skipped samples.
  void fill(Task& task);

 private:
  /// The sample that is written at an offset of the task's slot.
  struct Wanted {
    const Task& task;
    int64_t offset;
    int64_t skipped;  ///< bad samples that this one comes after, and replaces
    int64_t sample;
  };

  void fill_samples(Task& task);
  void fill_sample(Task& task, int64_t offset);
  void make(const Task& task, int64_t offset, int64_t skipped);
  void read(const Wanted& wanted, int64_t numbers, uint8_t* pixels);
  StoredImage decoded(const StoredImage& image);
  void read_target(const Wanted& wanted) const;
  StoredImage open(const Wanted& wanted);
  void normalize(const uint8_t* pixels, int64_t numbers, const Array& images, int64_t row);
  bool replace(const Task& task, int64_t offset);

  const FillPlan& plan_;
  Pipeline pipeline_;
  std::vector<SampleKey> views_;  // of the current sample
  std::vector<uint8_t> pixels_;   // of the current sample, before it is normalised
  Image decoded_;
  ReadAhead::Visit visit_;
  bool listened_ = false;  // whether a profiler records ranges; looked up once a task
};

}  // namespace composer
