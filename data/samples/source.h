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

#include "base/files/mapped_file.h"
#include "data/index/index_slot.h"
#include "data/jpeg/decoder.h"
#include "data/pixels/image.h"
#include "data/samples/sample_table.h"

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
  JpegKept kept{};

  /// Lets go of all of it where it is far_above an image of that size. To be called when what was
  /// read is not needed any more.
  void give_back(ImageSize size);
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

/// Calls visit with each sample that a loader will want, from now on and for an epoch, in order.
using Forecast = std::function<void(const std::function<void(int64_t sample)>& visit)>;

/// Whether there is room for so many bytes, which are then taken to be there.
using RoomFor = std::function<bool(uint64_t bytes)>;

/// Functions are called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  /// 1 or 3, the same for all samples.
  virtual int64_t channels() const = 0;
  /// Its class; 0 for a source with values.
  virtual int64_t label(int64_t index) const = 0;
  /// How many numbers each sample has for a target in place of a class; 0: it has a class.
  virtual int64_t num_values() const { return 0; }
  /// What they are called, in order.
  virtual std::vector<std::string> value_names() const { return {}; }
  /// Writes those of the sample, num_values() of them. Throws RunError as open() does.
  virtual void read_values(int64_t, std::span<float>) const {}
  /// What an error message calls the sample: its file, or the file and the place in it.
  virtual std::string name(int64_t index) const = 0;
  /// Valid until `scratch` is used again. Throws RunError with the reason, without the name;
  /// RemoteError or UserError where a store fails, which says nothing about the sample.
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
  /// Throws as open() does, and RunError where there is no room.
  virtual FileStamp fetch(int64_t, std::vector<uint8_t>&, const RoomFor&) const { return {}; }
  /// What open() needs of the sample, or the whole page that it lies in. Nothing where open() will
  /// throw.
  virtual std::optional<Extent> extent(int64_t, bool) const { return {}; }
  /// Returns when the bytes are there, or cannot be had: open() will tell.
  virtual void bring(const Extent&) const {}
  /// Whether bytes may still have to come over a network: those are read ahead however quick others
  /// were.
  virtual bool is_remote() const { return false; }
  /// What a loader will want, for a source that keeps no more than it has room for; until what is
  /// returned ends. Called by any thread.
  virtual std::shared_ptr<void> follow(Forecast) const { return nullptr; }
  /// Asks the system to let go of what it keeps in memory of the sample, or of the whole page.
  virtual void forget(int64_t, bool) const {}
  /// The .beton file or the folder whose streams have keys, for which a loader keeps crop indices.
  /// Empty: none are kept.
  virtual std::filesystem::path indexed_path() const { return {}; }
  /// Of a remote indexed_path(): tells its version from others.
  virtual std::optional<FileStamp> remote_stamp() const { return {}; }
};

/// source.label(index), whose RunError, where the label's bytes were lost, names the sample.
int64_t label_of(const Source& source, int64_t index);

/// How many different labels the samples have.
int64_t count_labels(const Source& source);

/// Decodes no more than the request needs, in the wanted number of channels. For a stream that is
/// not upright, or pixels, scale is 1. Throws RunError with the reason.
ImagePart read_part(const StoredImage& image, const JpegRequest& request, int64_t channels,
                    ReadScratch& scratch);

/// Image files, read when they are needed.
class FileSource : public Source {
 public:
  /// The whole files of a table. root: what its relative paths begin with. channels: 3, or 1 to
  /// turn every image gray.
  FileSource(std::shared_ptr<const SampleTable> table, std::string root, int64_t channels)
      : table_(std::move(table)), root_(std::move(root)), channels_(channels) {}

  /// Class i of the table is labels[i].
  void set_labels(std::vector<int32_t> labels) { labels_ = std::move(labels); }
  /// Crop indices are kept of the files, all of which lie below `folder`, the root.
  void index_below(const std::string& folder) { folder_ = folder; }
  /// The rows are those of that list, which errors then name.
  void are_rows_of(std::string list) { list_ = std::move(list); }

  int64_t size() const override { return table_->size(); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override {
    const int32_t label = table_->label(index);
    return labels_.empty() ? label : labels_[static_cast<size_t>(label)];
  }
  int64_t num_values() const override { return table_->num_values(); }
  std::vector<std::string> value_names() const override { return table_->value_names(); }
  void read_values(int64_t index, std::span<float> values) const override {
    table_->read_values(index, values);
  }
  std::string name(int64_t index) const override;
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  bool has_image_files() const override { return true; }
  Arrival arrival() const override { return Arrival::by_sample; }
  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override;
  void forget(int64_t index, bool whole_page) const override;
  std::filesystem::path indexed_path() const override { return folder_; }

 private:
  std::string path(int64_t index) const;

  const std::shared_ptr<const SampleTable> table_;
  const std::string root_;
  const int64_t channels_;
  std::vector<int32_t> labels_;
  std::string folder_, list_;
};

/// The given files; the class of each is its place. Throws UserError that names those that are
/// missing or no files.
std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels);

/// The whole file. room_for: asked once its size is known, unless empty. Throws RunError with the
/// reason, without the name.
FileStamp read_file(const char* path, std::vector<uint8_t>& bytes, const RoomFor& room_for = {});

}  // namespace composer
