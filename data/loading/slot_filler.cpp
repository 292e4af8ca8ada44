#include "data/loading/slot_filler.h"

#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work_range.h"
#include "data/pixels/copy.h"

namespace composer {
namespace {

/// A WorkRange where a profiler records ranges: for tiny images an unheard WorkRange costs too
/// much.
class Range {
 public:
  Range(bool listened, std::string_view name) {
    if (listened) range_.emplace(name);
  }

 private:
  std::optional<WorkRange> range_;
};

}  // namespace

void BadSampleLog::add(const std::string& what) {
  const std::lock_guard guard(lock_);
  if (added_.size() > most_ || !added_.insert(what).second) return;
  const std::string done =
      on_bad_sample_ == OnBadSample::skip ? "skipped: " : "replaced by another: ";
  log::warn(added_.size() > most_
                ? "more bad samples are not listed; `composer data verify` lists all"
                : done + what);
}

void BadSampleLog::sum_up(int64_t samples) {
  const std::lock_guard guard(lock_);
  if (added_.empty() || on_bad_sample_ != OnBadSample::skip) return;
  const auto of = " of " + quantity(samples, "sample") + " ";
  const auto bad = std::ssize(added_);
  if (bad >= samples) throw RunError("not one" + of + "can be read");
  if (std::exchange(reported_, bad) == bad) return;
  log::warn(std::to_string(bad) + of + (bad == 1 ? "was skipped: it" : "were skipped: they") +
            " cannot be read");
}

SlotFiller::SlotFiller(const FillPlan& plan)
    : plan_(plan),
      pipeline_(plan.options.transform, plan.source.channels()),
      views_(static_cast<size_t>(plan.options.views)) {}

void SlotFiller::fill(Task& task) {
  listened_ = ranges_are_recorded();
  if (plan_.ahead != nullptr) plan_.ahead->begin(task);
  fill_samples(task);
  if (plan_.ahead != nullptr) plan_.ahead->end(task, visit_);
}

void SlotFiller::fill_samples(Task& task) {
  for (int64_t offset = task.begin; offset < task.end; ++offset) {
    if (task.slot->dropped.load(std::memory_order_relaxed)) return;
    if (task.slot->lost.load(std::memory_order_relaxed)) return;
    try {
      fill_sample(task, offset);
    } catch (...) {
      task.failed_at = offset;
      task.failure = std::current_exception();
      return;
    }
  }
}

void SlotFiller::fill_sample(Task& task, int64_t offset) {
  const OnBadSample on_bad_sample = plan_.common.on_bad_sample;
  try {
    make(task, offset, 0);
  } catch (const BadSample& bad) {
    if (on_bad_sample == OnBadSample::error)
      throw BadSample(bad.index(), bad.name(), bad.reason(),
                      "; --on_bad_sample skip leaves such samples out");
    plan_.bad_samples.add(bad.what());
    const bool replaced = on_bad_sample == OnBadSample::replace && replace(task, offset);
    if (!replaced) task.bad.push_back(offset);
  }
}

/// Takes the next sample of the epoch that can be read; false when a hundred in a row cannot.
bool SlotFiller::replace(const Task& task, int64_t offset) {
  constexpr int64_t kMost = 100;
  for (int64_t skipped = 1; skipped <= kMost; ++skipped) {
    try {
      make(task, offset, skipped);
      return true;
    } catch (const BadSample& bad) {
      plan_.bad_samples.add(bad.what());
    }
  }
  return false;
}

/// Writes into the slot, at the offset, all views of the sample that is `skipped` positions later
/// in the epoch. Throws BadSample.
void SlotFiller::make(const Task& task, int64_t offset, int64_t skipped) {
  const auto& options = plan_.options;
  const BatchSlot& slot = *task.slot;
  const int64_t position = slot.first + offset + skipped;
  const int64_t sample = slot.order(position % plan_.epoch_samples);
  // Where an epoch has a sample twice, the two shall look different.
  const int64_t drawn_by = plan_.repeats ? position : sample;
  const int64_t size = plan_.source.size();
  const int64_t apart = plan_.repeats ? std::max(size, plan_.epoch_samples) : size;
  for (int64_t view = 0; view < options.views; ++view)
    views_[static_cast<size_t>(view)] = {plan_.common.seed, static_cast<uint64_t>(slot.epoch),
                                         static_cast<uint64_t>(drawn_by + view * apart)};

  const int64_t row = offset * options.views;
  std::fill_n(slot.arrays.indices.as<int64_t>() + row, options.views, sample);
  const int64_t numbers = slot.size.height * slot.size.width * plan_.source.channels();
  const bool bytes = options.output == ElementType::uint8;
  if (!bytes) pixels_.resize(static_cast<size_t>(numbers * options.views));
  uint8_t* const pixels = bytes ? slot.arrays.images.as<uint8_t>() + row * numbers : pixels_.data();
  read({task, offset, skipped, sample}, numbers, pixels);
  for (int64_t view = 0; view < options.views; ++view) {
    uint8_t* const image = pixels + view * numbers;
    if (!options.augmentations.empty()) {
      const Range range(listened_, "augment");
      for (const auto& augment : options.augmentations)
        augment({image, slot.size.height, slot.size.width, plan_.source.channels()},
                views_[static_cast<size_t>(view)]);
    }
    if (!bytes) normalize(image, numbers, slot.arrays.images, row + view);
  }
}

/// Writes the views, one after the other. Throws BadSample.
void SlotFiller::read(const Wanted& wanted, int64_t numbers, uint8_t* pixels) {
  const ImageSize size = wanted.task.slot->size;
  try {
    StoredImage image;
    {
      const Range range(listened_, "read");
      image = open(wanted);
      if (plan_.indices != nullptr) image.index.use(*plan_.indices, plan_.coefficients);
      read_target(wanted);
    }
    const Range range(listened_, "decode");
    use_image(image, [&] {
      const StoredImage seen = views_.size() > 1 ? decoded(image) : image;
      for (auto& view : views_) {
        view.mirrored = pipeline_.run(seen, size, view, pixels);
        pixels += numbers;
      }
      return true;
    });
    pipeline_.scratch().give_back(image.size);
  } catch (const RemoteError&) {
    wanted.task.slot->lost = true;
    throw;
  } catch (const UserError&) {  // thrown by a store
    wanted.task.slot->lost = true;
    throw;
  } catch (const RunError& error) {
    throw BadSample(wanted.sample, plan_.source.name(wanted.sample), error.what());
  }
}

/// The image with all its pixels decoded.
StoredImage SlotFiller::decoded(const StoredImage& image) {
  if (!image.jpeg) return image;
  const JpegRequest whole{.region = {0, 0, image.size.height, image.size.width},
                          .scale = 1,
                          .dct = plan_.options.transform.dct};
  const auto part = read_part(image, whole, image.channels, pipeline_.scratch());
  decoded_.resize(part.pixels.height, part.pixels.width, part.pixels.channels);
  copy_pixels(part.pixels, false, decoded_.pixels.data());
  return stored_pixels(decoded_);
}

void SlotFiller::read_target(const Wanted& wanted) const {
  const Source& source = plan_.source;
  const BatchArrays& arrays = wanted.task.slot->arrays;
  const int64_t views = plan_.options.views, row = wanted.offset * views;
  if (!arrays.values.defined()) {
    std::fill_n(arrays.classes.as<int64_t>() + row, views, source.label(wanted.sample));
    return;
  }
  const auto count = static_cast<size_t>(source.num_values());
  float* const values = arrays.values.as<float>() + row * source.num_values();
  source.read_values(wanted.sample, {values, count});
  for (int64_t view = 1; view < views; ++view)
    std::copy_n(values, count, values + static_cast<size_t>(view) * count);
}

StoredImage SlotFiller::open(const Wanted& wanted) {
  ReadScratch& scratch = pipeline_.scratch();
  if (plan_.ahead != nullptr && wanted.skipped == 0)
    plan_.ahead->bring(wanted.task, wanted.offset, wanted.sample, scratch);
  else if (plan_.common.cold)
    plan_.source.forget(wanted.sample, /*whole_page=*/false);
  return plan_.source.open(wanted.sample, scratch);
}

void SlotFiller::normalize(const uint8_t* pixels, int64_t numbers, const Array& images,
                           int64_t row) {
  const Range range(listened_, "collate");
  const PixelNormalizer& normalizer = plan_.normalizer;
  if (plan_.options.output == ElementType::float32)
    normalizer.run(pixels, numbers, images.as<float>() + row * numbers);
  else if (plan_.options.output == ElementType::float16)
    normalizer.run_f16(pixels, numbers, images.as<uint16_t>() + row * numbers);
  else
    normalizer.run_bf16(pixels, numbers, images.as<uint16_t>() + row * numbers);
}

}  // namespace composer
