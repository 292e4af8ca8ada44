// What happens to an image between the file and the batch: crops, sizes, flips. Every draw depends
// on nothing but (seed, epoch, sample).
#pragma once

#include <vector>

#include "base/loading/image_size.h"
#include "base/loading/sample_transform.h"
#include "base/random.h"
#include "data/pixels/copy.h"
#include "data/pixels/image.h"
#include "data/pixels/resize.h"
#include "data/samples/source.h"

namespace composer {

struct Transform {
  enum class Kind {
    whole,                ///< the whole image
    pad_and_crop,         ///< train: a border around, `size` somewhere in it, flip
    random_resized_crop,  ///< train: a random part of random shape, flip
    center_crop,          ///< eval: the middle
  };

  Kind kind = Kind::whole;
  int64_t resize_size = -1;  ///< length that the shorter side gets first; -1 = stays
  ImageSize size;            ///< of the result
  double flip = 0.5;         ///< how often pad_and_crop and random_resized_crop mirror left-right
  int64_t padding = 4;       ///< of pad_and_crop
  Border border{};           ///< of pad_and_crop
  ResizeFilter filter = ResizeFilter::triangle;
  Dct dct = Dct::accurate;
  /// With the triangle filter: decode JPEG at 1/2, 1/4 or 1/8 where a crop is at least twice, four
  /// or eight times the result.
  bool scaled_decode = false;
  /// center_crop as FFCV: the middle square of size/resize_size of the shorter side, then the size.
  bool ffcv_center = false;
};

/// One thread's way from a stored image to the pixels of a batch.
class Pipeline {
 public:
  /// transform must outlive it. channels: 1 or 3, of the result.
  Pipeline(const Transform& transform, int64_t channels);

  /// Writes `size` pixels to out. A size other than transform.size resizes the random crop, or what
  /// the transform would have given, to that. Returns whether it mirrored the image. Throws
  /// RunError with the reason.
  bool run(const StoredImage& image, ImageSize size, const SampleKey& place, uint8_t* out);

  /// What the image given to run() is read into.
  ReadScratch& scratch() { return scratch_; }

 private:
  void whole(const StoredImage& image, ImageSize size, uint8_t* out);
  bool pad_and_crop(const StoredImage& image, ImageSize size, const SampleKey& place, uint8_t* out);
  bool random_resized_crop(const StoredImage& image, ImageSize size, const SampleKey& place,
                           uint8_t* out);
  void center_crop(const StoredImage& image, ImageSize size, uint8_t* out);
  void resize(const StoredImage& image, const Box& box, ImageSize size, const Box& window,
              bool flip, uint8_t* out);
  void resize(const StoredImage& image, const Box& box, ImageSize size, bool flip, uint8_t* out) {
    resize(image, box, size, {0, 0, size.height, size.width}, flip, out);
  }
  StoredImage first_resized(const StoredImage& image);
  bool draw_flip(const SampleKey& place) const;

  const Transform& transform_;
  const int64_t channels_;
  ReadScratch scratch_;
  ResizePlan plan_;
  std::vector<uint8_t> resized_, cropped_;
};

/// The part of an image that torchvision's RandomResizedCrop takes (scale 0.08..1 of the area,
/// ratio 3/4..4/3).
Box draw_crop(ImageSize image, Random& random);

/// The size after the shorter side became `length`, rounded as torchvision's Resize does.
ImageSize resized(ImageSize image, int64_t length);

}  // namespace composer
