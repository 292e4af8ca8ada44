#include "data/samples/memory_source.h"

#include <algorithm>

#include "base/error.h"
#include "data/pixels/copy.h"

namespace composer {
namespace {

constexpr size_t most_bytes = size_t{1} << 30;

Image whole_image(const Source& source, int64_t index, ReadScratch& scratch) {
  const StoredImage stored = source.open(index, scratch);
  return use_image(stored, [&] {
    const JpegRequest whole{{0, 0, stored.size.height, stored.size.width}};
    const ImageView pixels = read_part(stored, whole, source.channels(), scratch).pixels;
    Image image;
    image.resize(pixels.height, pixels.width, pixels.channels);
    copy_pixels(pixels, /*mirrored=*/false, image.pixels.data());
    return image;
  });
}

}  // namespace

DecodedSource::DecodedSource(std::shared_ptr<Source> source, int64_t most)
    : source_(std::move(source)) {
  const int64_t count = std::min(most, source_->size());
  ReadScratch scratch;
  std::string problem = "the set has no samples";
  size_t bytes = 0;
  for (int64_t i = 0; i < count && bytes < most_bytes; ++i) {
    const int64_t index = i * source_->size() / count;
    try {
      samples_.push_back({whole_image(*source_, index, scratch), source_->label(index), index});
      bytes += samples_.back().image.pixels.size();
    } catch (const RemoteError&) {
      throw;
    } catch (const RunError& error) {
      problem = source_->name(index) + ": " + error.what();
    }
  }
  if (samples_.empty()) throw RunError(problem);
}

const DecodedSource::Sample& DecodedSource::sample(int64_t index) const {
  return samples_[static_cast<size_t>(index * decoded() / size())];
}

StoredImage DecodedSource::open(int64_t index, ReadScratch&) const {
  return stored_pixels(sample(index).image);
}

}  // namespace composer
