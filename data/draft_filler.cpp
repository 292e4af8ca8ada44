#include "data/draft_filler.h"

#include <ATen/record_function.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "composer/error.h"
#include "composer/profiling/thread_range.h"

namespace composer {
namespace {

/// A sample that cannot be read, as opposed to a failure of the program.
struct BadSample : RunError {
  using RunError::RunError;
};

/// Where nobody listens it costs less than a range, which shows where images are tiny.
class Range {
 public:
  Range(bool listened, std::string_view name) {
    if (listened) range_.emplace(name);
  }

 private:
  std::optional<ThreadRange> range_;
};

}  // namespace

DraftFiller::DraftFiller(const FillPlan& plan)
    : plan_(plan), pipeline_(plan.options.transform, plan.source.channels()) {}

void DraftFiller::fill(Task& task) {
  listened_ = at::hasCallbacks();
  if (plan_.ahead != nullptr) plan_.ahead->begin(task);
  fill_places(task);
  if (plan_.ahead != nullptr) plan_.ahead->end(task, visit_);
}

void DraftFiller::fill_places(Task& task) {
  for (int64_t place = task.begin; place < task.end; ++place) {
    if (task.draft->dropped.load(std::memory_order_relaxed)) return;
    try {
      fill_place(task, place);
    } catch (...) {
      task.failed_at = place;
      task.failure = std::current_exception();
      return;
    }
  }
}

void DraftFiller::fill_place(Task& task, int64_t place) {
  const OnBadSample on_bad_sample = plan_.common.on_bad_sample;
  try {
    make(task, place, 0);
  } catch (const BadSample& bad) {
    if (on_bad_sample == OnBadSample::error) {
      throw RunError(bad.what() + std::string("; --on_bad_sample skip leaves such samples out"));
    }
    plan_.bad_samples.add(bad.what());
    const bool replaced = on_bad_sample == OnBadSample::replace && replace(task, place);
    if (!replaced) task.bad.push_back(place);
  }
}

/// Takes the next sample of the epoch that can be read; false when a hundred in a row cannot.
bool DraftFiller::replace(const Task& task, int64_t place) {
  constexpr int64_t kMost = 100;
  for (int64_t next = 1; next <= kMost; ++next) {
    try {
      make(task, place, next);
      return true;
    } catch (const BadSample& bad) {
      plan_.bad_samples.add(bad.what());
    }
  }
  return false;
}

/// Puts the sample so many places behind this one into the draft.
void DraftFiller::make(const Task& task, int64_t place, int64_t behind) {
  const auto& options = plan_.options;
  const Draft& draft = *task.draft;
  const int64_t position = draft.first + place + behind;
  const int64_t sample = draft.order(position % plan_.epoch_samples);
  const int64_t channels = plan_.source.channels();
  const int64_t numbers = draft.size.height * draft.size.width * channels;
  // A class-balanced epoch may have a sample twice, which then shall not look the same.
  const int64_t drawn_by = options.order == OrderKind::class_balanced ? position : sample;
  SamplePlace where{plan_.common.seed, static_cast<uint64_t>(draft.epoch),
                    static_cast<uint64_t>(drawn_by)};
  const bool bytes = options.output == at::kByte;
  if (!bytes) pixels_.resize(static_cast<size_t>(numbers));
  uint8_t* const pixels =
      bytes ? draft.input.mutable_data_ptr<uint8_t>() + place * numbers : pixels_.data();
  int64_t& label = draft.classes.mutable_data_ptr<int64_t>()[place];
  where.mirrored = read({task, place, behind, sample}, where, label, pixels);
  if (!options.augmentations.empty()) {
    const Range range(listened_, "augment");
    for (const auto& augment : options.augmentations)
      augment({pixels, draft.size.height, draft.size.width, channels}, where);
  }
  if (!bytes) normalize(pixels, numbers, draft.input, place);
}

/// Returns whether the image was mirrored. Throws BadSample.
bool DraftFiller::read(const Wanted& wanted, const SamplePlace& where, int64_t& label,
                       uint8_t* pixels) {
  const Source& source = plan_.source;
  const ImageSize size = wanted.task.draft->size;
  try {
    StoredImage image;
    {
      const Range range(listened_, "read");
      image = open(wanted);
      if (plan_.indices != nullptr) image.index.use(*plan_.indices);
      label = source.label(wanted.sample);
    }
    const Range range(listened_, "decode");
    return use_image(image, [&] { return pipeline_.run(image, size, where, pixels); });
  } catch (const RunError& error) {
    throw BadSample(source.name(wanted.sample) + ": " + error.what());
  }
}

StoredImage DraftFiller::open(const Wanted& wanted) {
  ReadScratch& scratch = pipeline_.scratch();
  if (plan_.ahead != nullptr && wanted.behind == 0) {
    plan_.ahead->bring(wanted.task, wanted.place, wanted.sample, scratch);
  } else if (plan_.common.cold) {
    plan_.source.forget(wanted.sample, /*whole_page=*/false);
  }
  return plan_.source.open(wanted.sample, scratch);
}

void DraftFiller::normalize(const uint8_t* pixels, int64_t numbers, const at::Tensor& input,
                            int64_t place) {
  const Range range(listened_, "collate");
  const PixelNormalizer& normalizer = plan_.normalizer;
  if (plan_.options.output == at::kFloat) {
    normalizer.run(pixels, numbers, input.mutable_data_ptr<float>() + place * numbers);
  } else {
    auto* const out = input.mutable_data_ptr<at::BFloat16>() + place * numbers;
    normalizer.run_bf16(pixels, numbers, reinterpret_cast<uint16_t*>(out));
  }
}

}  // namespace composer
