// Random access to the samples of a set: what a loader reads from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/image.h"

namespace composer {

/// Memory that one thread reads into, kept from image to image.
struct ReadScratch {
  std::vector<uint8_t> file;
  Image image;
};

/// Functions are called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  /// 1 or 3, the same for all samples.
  virtual int64_t channels() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  /// What an error message calls the sample: its file, or the file and the place in it.
  virtual std::string name(int64_t index) const = 0;
  /// The decoded image; valid until `scratch` is used again. Throws RunError with the reason,
  /// without the name.
  virtual ImageView read(int64_t index, ReadScratch& scratch) const = 0;
};

/// Image files, read when they are needed.
class FileSource : public Source {
 public:
  /// channels: 3, or 1 to turn every image gray.
  explicit FileSource(int64_t channels) : channels_(channels) {}

  void add(const std::string& file, int64_t label);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override { return path(index); }
  ImageView read(int64_t index, ReadScratch& scratch) const override;

 private:
  const char* path(int64_t index) const {
    return paths_.data() + begins_[static_cast<size_t>(index)];
  }

  int64_t channels_;
  std::string paths_;  // one after the other, each with its 0: a million small strings would cost
                       // twice the memory
  std::vector<size_t> begins_;
  std::vector<int32_t> labels_;
};

/// The given files with class 0. Throws UserError that names those that are missing or no files.
std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels);

/// The whole file. Throws RunError with the reason, without the name.
void read_file(const char* path, std::vector<uint8_t>& bytes);

}  // namespace composer
