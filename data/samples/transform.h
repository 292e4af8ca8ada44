// The transforms of an image between the file and the batch: crops, sizes, flips. Every random draw
// is a pure function of (seed, epoch, sample).
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

/// What crops random_resized_crop draws.
struct CropLaw {
  double least_area = 0.08, most_area = 1;             ///< shares of the image's
  double least_ratio = 3.0 / 4, most_ratio = 4.0 / 3;  ///< width : height
};

struct Transform {
  enum class Kind {
    whole,                ///< the whole image
    pad_and_crop,         ///< train: a border, a random crop of `size`, flip
    random_resized_crop,  ///< train: a random crop of random shape, flip
    center_crop,          ///< eval: the middle of the image
  };

  Kind kind = Kind::whole;
  int64_t resize_size = -1;  ///< length of the shorter side before the crop; -1: unchanged
  ImageSize size;            ///< size of the result
  double flip = 0.5;         ///< probability of a left-right flip in the two random crops
  int64_t padding = 4;       ///< padding of pad_and_crop, in pixels
  Border border{};           ///< border of pad_and_crop
  ResizeFilter filter = ResizeFilter::triangle;
  Dct dct = Dct::accurate;
  /// With the triangle filter, JPEG is decoded at 1/2, 1/4 or 1/8 where a crop is at least 2, 4 or
  /// 8 times the result.
  bool scaled_decode = false;
  /// Above 0: center_crop as FFCV's, the middle square of this share of the shorter side, resized.
  double center_share = 0;
  CropLaw crop{};  ///< of random_resized_crop
};

/// Transforms stored images into the pixels of a batch, for one thread.
class Pipeline {
 public:
  /// transform must outlive the pipeline. channels: 1 or 3, of the result.
  Pipeline(const Transform& transform, int64_t channels);

  /// Writes an image of `size` to out. A size other than transform.size resizes the random crop, or
  /// the transform's result. Returns whether the image was mirrored. Throws RunError with the
  /// reason.
  bool run(const StoredImage& image, ImageSize size, const SampleKey& key, uint8_t* out);

  /// The scratch that the image of run() was opened with.
  ReadScratch& scratch() { return scratch_; }

 private:
  void whole(const StoredImage& image, ImageSize size, uint8_t* out);
  bool pad_and_crop(const StoredImage& image, ImageSize size, const SampleKey& key, uint8_t* out);
  bool random_resized_crop(const StoredImage& image, ImageSize size, const SampleKey& key,
                           uint8_t* out);
  void center_crop(const StoredImage& image, ImageSize size, uint8_t* out);
  void resize(const StoredImage& image, const Box& box, ImageSize size, const Box& window,
              bool flip, uint8_t* out);
  void resize(const StoredImage& image, const Box& box, ImageSize size, bool flip, uint8_t* out) {
    resize(image, box, size, {0, 0, size.height, size.width}, flip, out);
  }
  StoredImage first_resized(const StoredImage& image);
  bool draw_flip(const SampleKey& key) const;

  const Transform& transform_;
  const int64_t channels_;
  ReadScratch scratch_;
  ResizePlan plan_;
  std::vector<uint8_t> resized_, cropped_;
};

/// The crop of torchvision's RandomResizedCrop.
Box draw_crop(ImageSize image, Random& random, const CropLaw& law = {});

/// The crop of FFCV's CenterCropRGBImageDecoder, which then resizes it by area: a square of `ratio`
/// (above 0, at most 1) times the shorter side, rounded down but at least one pixel, in the middle,
/// rounded up and left. FFCV's random crop follows the same law as torchvision's (draw_crop).
Box ffcv_center_crop(ImageSize image, double ratio);

/// The size after resizing the shorter side to `length`, rounded as torchvision's Resize does.
ImageSize resized(ImageSize image, int64_t length);

}  // namespace composer
