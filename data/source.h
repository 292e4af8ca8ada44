// Random access to the samples of a set: what a loader reads from.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "composer/storage/mapped_file.h"
#include "data/image.h"
#include "data/index_slot.h"
#include "data/jpeg/decoder.h"

namespace composer {

/// An image as it is stored. A JPEG stream is decoded when a part of it is asked for (read_part).
struct StoredImage {
  bool jpeg = false;                    ///< else pixels: rows from the top, without gaps
  std::span<const uint8_t> bytes;       ///< the stream, or the pixels
  ImageSize size;                       ///< upright
  int64_t channels = 3;                 ///< of the pixels; a stream has 3
  int orientation = 1;                  ///< EXIF's of the stream, 1..8
  const MappedFile* mapping = nullptr;  ///< what the bytes lie in, if they are a file's
  IndexSlot index{};                    ///< of a stream of a set with an indexed_path()
};

/// Returns use(), which reads the image. Throws RunError when bytes of its file were lost
/// meanwhile, whatever use() made of what stood there.
template <class Use>
auto use_image(const StoredImage& image, Use&& use) {
  return image.mapping != nullptr ? image.mapping->use(image.bytes, use) : use();
}

/// Memory that one thread reads into, kept from image to image.
struct ReadScratch {
  std::vector<uint8_t> file;
  Image image, upright;
  JpegDecoder decoder;
  std::vector<uint8_t> index;
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
  /// Valid until `scratch` is used again. Throws RunError with the reason, without the name.
  virtual StoredImage open(int64_t index, ReadScratch& scratch) const = 0;

  /// Whether the samples are image files: they are coded, and none has to keep its bytes in a copy
  /// of the set.
  virtual bool has_image_files() const { return false; }
  /// Bytes of the file that all samples lie in, in pages; 0 for a set without pages.
  virtual uint64_t paged_bytes() const { return 0; }
  /// The page of that file that the sample lies in: samples of one page are cheap to read together.
  virtual int64_t page(int64_t) const { return 0; }
  /// Asks the system to read the sample ahead.
  virtual void will_need(int64_t) const {}
  /// Asks the system to let go of what it keeps of the sample in memory.
  virtual void forget(int64_t) const {}
  /// The .beton file or the folder whose streams have keys, for which a loader keeps crop indices.
  /// Empty: none are kept.
  virtual std::filesystem::path indexed_path() const { return {}; }
};

/// source.label(index), whose RunError, where the label's bytes were lost, names the sample.
int64_t label_of(const Source& source, int64_t index);

/// Decodes no more than the request needs, in the wanted number of channels. For a stream that is
/// not upright, or pixels, scale is 1. Throws RunError with the reason.
ImagePart read_part(const StoredImage& image, const JpegRequest& request, int64_t channels,
                    ReadScratch& scratch);

/// Image files, read when they are needed.
class FileSource : public Source {
 public:
  /// channels: 3, or 1 to turn every image gray.
  explicit FileSource(int64_t channels) : channels_(channels) {}

  void add(const std::string& file, int64_t label);
  /// Crop indices are kept of the files, all of which lie below `folder`.
  void index_below(const std::string& folder) { folder_ = folder; }

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override { return path(index); }
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  bool has_image_files() const override { return true; }
  void forget(int64_t index) const override;
  std::filesystem::path indexed_path() const override { return folder_; }

 private:
  const char* path(int64_t index) const {
    return paths_.data() + begins_[static_cast<size_t>(index)];
  }

  std::string_view below_folder(std::string_view file) const;

  int64_t channels_;
  std::string paths_;  // one after the other, each with its 0: a million small strings would cost
                       // twice the memory
  std::vector<size_t> begins_;
  std::vector<int32_t> labels_;
  std::string folder_;
};

/// The given files; the class of each is its place. Throws UserError that names those that are
/// missing or no files.
std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels);

/// The whole file. Throws RunError with the reason, without the name.
FileStamp read_file(const char* path, std::vector<uint8_t>& bytes);

}  // namespace composer
