#include "data/loading/slot_filler.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/work_range.h"
#include "data/pixels/copy.h"

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
  std::optional<WorkRange> range_;
};

}  // namespace

SlotFiller::SlotFiller(const FillPlan& plan)
    : plan_(plan),
      pipeline_(plan.options.transform, plan.source.channels()),
      views_(static_cast<size_t>(plan.options.views)) {}

void SlotFiller::fill(Task& task) {
  listened_ = ranges_are_recorded();
  if (plan_.ahead != nullptr) plan_.ahead->begin(task);
  fill_places(task);
  if (plan_.ahead != nullptr) plan_.ahead->end(task, visit_);
}

void SlotFiller::fill_places(Task& task) {
  for (int64_t place = task.begin; place < task.end; ++place) {
    if (task.draft->dropped.load(std::memory_order_relaxed)) return;
    if (task.draft->lost.load(std::memory_order_relaxed)) return;
    try {
      fill_place(task, place);
    } catch (...) {
      task.failed_at = place;
      task.failure = std::current_exception();
      return;
    }
  }
}

void SlotFiller::fill_place(Task& task, int64_t place) {
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
bool SlotFiller::replace(const Task& task, int64_t place) {
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

/// Puts the sample so many places behind this one into the draft, in all its views. Throws
/// BadSample.
void SlotFiller::make(const Task& task, int64_t place, int64_t behind) {
  const auto& options = plan_.options;
  const BatchSlot& draft = *task.draft;
  const int64_t position = draft.first + place + behind;
  const int64_t sample = draft.order(position % plan_.epoch_samples);
  // A sample that an epoch has twice shall not look the same.
  const int64_t drawn_by = plan_.repeats ? position : sample;
  const int64_t size = plan_.source.size();
  const int64_t apart = plan_.repeats ? std::max(size, plan_.epoch_samples) : size;
  for (int64_t view = 0; view < options.views; ++view)
    views_[static_cast<size_t>(view)] = {plan_.common.seed, static_cast<uint64_t>(draft.epoch),
                                         static_cast<uint64_t>(drawn_by + view * apart)};

  std::fill_n(draft.arrays.indices.as<int64_t>() + place * options.views, options.views, sample);
  const int64_t numbers = draft.size.height * draft.size.width * plan_.source.channels();
  const bool bytes = options.output == ElementType::uint8;
  if (!bytes) pixels_.resize(static_cast<size_t>(numbers * options.views));
  uint8_t* const pixels =
      bytes ? draft.arrays.images.as<uint8_t>() + place * options.views * numbers : pixels_.data();
  read({task, place, behind, sample}, numbers, pixels);
  for (int64_t view = 0; view < options.views; ++view) {
    uint8_t* const image = pixels + view * numbers;
    if (!options.augmentations.empty()) {
      const Range range(listened_, "augment");
      for (const auto& augment : options.augmentations)
        augment({image, draft.size.height, draft.size.width, plan_.source.channels()},
                views_[static_cast<size_t>(view)]);
    }
    if (!bytes) normalize(image, numbers, draft.arrays.images, place * options.views + view);
  }
}

/// Writes the views, one after the other. Throws BadSample.
void SlotFiller::read(const Wanted& wanted, int64_t numbers, uint8_t* pixels) {
  const Source& source = plan_.source;
  const ImageSize size = wanted.task.draft->size;
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
    wanted.task.draft->lost = true;
    throw;
  } catch (const UserError&) {  // a store's
    wanted.task.draft->lost = true;
    throw;
  } catch (const RunError& error) {
    throw BadSample(source.name(wanted.sample) + ": " + error.what());
  }
}

/// Its pixels, all of them.
StoredImage SlotFiller::decoded(const StoredImage& image) {
  if (!image.jpeg) return image;
  const JpegRequest whole{.region = {0, 0, image.size.height, image.size.width},
                          .scale = 1,
                          .dct = plan_.options.transform.dct};
  const auto part = read_part(image, whole, image.channels, pipeline_.scratch());
  decoded_.resize(part.pixels.height, part.pixels.width, part.pixels.channels);
  copy_pixels(part.pixels, false, decoded_.pixels.data());
  return {.bytes = {decoded_.pixels.data(),
                    static_cast<size_t>(decoded_.height * decoded_.width * decoded_.channels)},
          .size = image.size,
          .channels = decoded_.channels};
}

void SlotFiller::read_target(const Wanted& wanted) const {
  const Source& source = plan_.source;
  const BatchSlot& draft = *wanted.task.draft;
  const int64_t views = plan_.options.views, first = wanted.place * views;
  if (!draft.arrays.values.defined()) {
    int64_t* const classes = draft.arrays.classes.as<int64_t>() + first;
    std::fill_n(classes, views, source.label(wanted.sample));
    return;
  }
  const auto count = static_cast<size_t>(source.num_values());
  float* const values = draft.arrays.values.as<float>() + first * source.num_values();
  source.read_values(wanted.sample, {values, count});
  for (int64_t view = 1; view < views; ++view)
    std::copy_n(values, count, values + static_cast<size_t>(view) * count);
}

StoredImage SlotFiller::open(const Wanted& wanted) {
  ReadScratch& scratch = pipeline_.scratch();
  if (plan_.ahead != nullptr && wanted.behind == 0) {
    plan_.ahead->bring(wanted.task, wanted.place, wanted.sample, scratch);
  } else if (plan_.common.cold) {
    plan_.source.forget(wanted.sample, /*whole_page=*/false);
  }
  return plan_.source.open(wanted.sample, scratch);
}

void SlotFiller::normalize(const uint8_t* pixels, int64_t numbers, const Array& images,
                           int64_t place) {
  const Range range(listened_, "collate");
  const PixelNormalizer& normalizer = plan_.normalizer;
  if (plan_.options.output == ElementType::float32)
    normalizer.run(pixels, numbers, images.as<float>() + place * numbers);
  else
    normalizer.run_bf16(pixels, numbers, images.as<uint16_t>() + place * numbers);
}

}  // namespace composer
