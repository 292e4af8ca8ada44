// Random access to the samples of a set: what a loader reads from.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
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
  /// Of the file whose bytes `file` has already, for the next open() of a source by_sample.
  std::optional<FileStamp> fetched{};
  Image image, upright;
  JpegDecoder decoder;
  std::vector<uint8_t> index;
};

/// How bytes of samples come from where they are stored, for those who want them before open().
enum class Arrival {
  in_memory,  ///< they are there
  by_sample,  ///< fetch() hands them over, each sample's by themselves
  by_range,   ///< bring() makes them quick to read where they lie, those of neighbours together
};

/// Some bytes of one of a source's files.
struct Extent {
  int64_t file = 0;  ///< a number of the source's own
  uint64_t begin = 0, end = 0;

  uint64_t bytes() const { return end - begin; }
};

/// Whether there is room for so many bytes, which are then taken to be there.
using RoomFor = std::function<bool(uint64_t bytes)>;

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
  /// Which of fetch() and bring() there is. Both take as long as the storage does.
  virtual Arrival arrival() const { return Arrival::in_memory; }
  /// Reads what open() reads of the sample. room_for: asked once the size is known, unless empty.
  /// Throws RunError as open() does, and where there is no room.
  virtual FileStamp fetch(int64_t, std::vector<uint8_t>&, const RoomFor&) const { return {}; }
  /// What open() needs of the sample, or the whole page that it lies in. Nothing where open() will
  /// throw.
  virtual std::optional<Extent> extent(int64_t, bool) const { return {}; }
  /// Returns when the bytes are there, or cannot be had: open() will tell.
  virtual void bring(const Extent&) const {}
  /// Asks the system to let go of what it keeps in memory of the sample, or of the whole page.
  virtual void forget(int64_t, bool) const {}
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
  Arrival arrival() const override { return Arrival::by_sample; }
  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override;
  void forget(int64_t index, bool whole_page) const override;
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

/// The whole file. room_for: asked once its size is known, unless empty. Throws RunError with the
/// reason, without the name.
FileStamp read_file(const char* path, std::vector<uint8_t>& bytes, const RoomFor& room_for = {});

}  // namespace composer
