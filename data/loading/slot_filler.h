// What a loader's thread does: it reads, decodes and augments single images into drafts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/loading/pixel_normalizer.h"
#include "data/index/index_store.h"
#include "data/loading/bad_sample_log.h"
#include "data/loading/batch_loader.h"
#include "data/loading/batch_slot.h"
#include "data/samples/transform.h"

namespace composer {

/// What a loader's threads share. All that is named must outlive them.
struct FillPlan {
  const Source& source;
  ReadAhead* ahead = nullptr;                ///< null when nothing is read ahead
  IndexStore* indices = nullptr;             ///< null when none are kept
  CoefficientStore* coefficients = nullptr;  ///< likewise
  const ImageLoaderOptions& options;
  const LoaderOptions& common;
  int64_t epoch_samples = 1;
  bool repeats = false;  ///< an epoch may have a sample more than once
  const PixelNormalizer& normalizer;
  BadSampleLog& bad_samples;
};

/// One thread's. Its work is seen by those who listen to user-scope ranges, as read, decode,
/// augment and collate.
class SlotFiller {
 public:
  explicit SlotFiller(const FillPlan& plan);

  /// Puts the task's images and classes into its draft, until one fails or the draft is dropped.
  /// The failure, and the samples that were skipped, are noted in the task.
  void fill(Task& task);

 private:
  /// What comes to a place: the sample that is so many places behind it in the epoch.
  struct Wanted {
    const Task& task;
    int64_t place, behind, sample;
  };

  void fill_places(Task& task);
  void fill_place(Task& task, int64_t place);
  void make(const Task& task, int64_t place, int64_t behind);
  void read(const Wanted& wanted, int64_t numbers, uint8_t* pixels);
  StoredImage decoded(const StoredImage& image);
  void read_target(const Wanted& wanted) const;
  StoredImage open(const Wanted& wanted);
  void normalize(const uint8_t* pixels, int64_t numbers, const Array& images, int64_t place);
  bool replace(const Task& task, int64_t place);

  const FillPlan& plan_;
  Pipeline pipeline_;
  std::vector<SampleKey> views_;  // of the sample at hand
  std::vector<uint8_t> pixels_;   // of a sample that becomes numbers
  Image decoded_;
  ReadAhead::Visit visit_;
  bool listened_ = false;  // whether anybody listens to ranges, looked at once a task
};

}  // namespace composer
