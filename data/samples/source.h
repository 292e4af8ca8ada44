// Random access to the samples of a set: what a loader reads from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/mapped_file.h"
#include "data/index/index_store.h"
#include "data/jpeg/decoder.h"
#include "data/pixels/image.h"
#include "data/samples/sample_table.h"

namespace composer {

class CoefficientStore;

/// The entry of one JPEG stream in the crop index and the coefficient cache of its set. Made by the
/// source. One without a key finds and records nothing.
class IndexSlot {
 public:
  IndexSlot() = default;
  /// key: the stream's key in its set. stamp: the stamp of its own file; empty when all streams lie
  /// in one file.
  explicit IndexSlot(uint64_t key, const FileStamp& stamp = {})
      : placed_(true), key_(key), stamp_(stamp) {}

  /// Finds the stream's cached coefficients, or else its index; record() and keep() write to these
  /// stores, which must outlive this.
  void use(IndexStore& store, CoefficientStore* coefficients = nullptr);
  /// Finds the stream's index without a store to record to.
  void use(const IndexTable& table) {
    if (placed_) found_ = table.find(key_, stamp_);
  }

  /// The index that was found, possibly of another stream; empty without one.
  std::span<const uint8_t> index() const {
    return found_ ? std::span<const uint8_t>(*found_) : std::span<const uint8_t>();
  }
  /// Whether an index of the stream should be made if index() is not its own: there is a store,
  /// which does not list the stream as one without an index.
  bool records() const { return store_ != nullptr && !(found_ && found_->empty()); }
  /// Needs records().
  void record(std::span<const uint8_t> index) const { store_->record(key_, index, stamp_); }

  /// Whether coefficients of the stream are cached, or should be. If so, fills `kept` for the
  /// decoder, valid while this lives.
  bool use_kept(JpegKept& kept) const;
  /// Caches the coefficients that were made; needs kept.wanted.
  void keep(const JpegKept& kept) const;

 private:
  bool placed_ = false;
  uint64_t key_ = 0;
  FileStamp stamp_{};
  StoredIndex found_{};
  IndexStore* store_ = nullptr;
  StoredIndex kept_{};
  CoefficientStore* coefficients_ = nullptr;
};

/// An image as it is stored. read_part() decodes a part of a JPEG stream.
struct StoredImage {
  bool jpeg = false;                    ///< bytes are a JPEG stream; else pixels
  std::span<const uint8_t> bytes;       ///< the stream, or pixels: rows from the top, without gaps
  ImageSize size;                       ///< size of the upright image
  int64_t channels = 3;                 ///< channels of the pixels; a stream has 3
  int orientation = 1;                  ///< EXIF orientation of the stream, 1..8
  const MappedFile* mapping = nullptr;  ///< the mapping that the bytes lie in; null: none
  IndexSlot index{};                    ///< set for a stream of a source with an indexed_path()
};

/// The image's pixels as a StoredImage, which refers to them.
StoredImage stored_pixels(const Image& image);

/// Returns use(), which reads the image. Throws RunError when bytes of the image's file were lost
/// meanwhile, whatever use() made of those bytes.
template <class Use>
auto use_image(const StoredImage& image, Use&& use) {
  return image.mapping != nullptr ? image.mapping->use(image.bytes, use) : use();
}

/// Memory that one thread reads into, kept from image to image.
struct ReadScratch {
  std::vector<uint8_t> file;
  /// Stamp of the file whose bytes are in `file`, for the next open() of a source by_sample.
  std::optional<FileStamp> fetched{};
  Image image, upright;
  JpegDecoder decoder;
  std::vector<uint8_t> index;
  JpegKept kept{};

  /// Frees all of it where it is far_above an image of that size. Invalidates what was read.
  void give_back(ImageSize size);
};

/// How a loader can get bytes of samples before it calls open().
enum class Arrival {
  in_memory,  ///< all bytes are in memory
  by_sample,  ///< fetch() reads one sample's bytes
  by_range,   ///< bring() loads a range of a mapped file, which may hold several samples
};

/// A range of bytes of one of a source's files.
struct Extent {
  int64_t file = 0;  ///< the source's number of the file
  uint64_t begin = 0, end = 0;

  uint64_t bytes() const { return end - begin; }
};

/// Calls visit with each sample that a loader will want, from now on and for an epoch, in order.
using Forecast = std::function<void(const std::function<void(int64_t sample)>& visit)>;

/// Reserves room for this many bytes; false where there is none.
using RoomFor = std::function<bool(uint64_t bytes)>;

/// Functions are called by several threads at once.
class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t size() const = 0;
  /// 1 or 3, the same for all samples.
  virtual int64_t channels() const = 0;
  /// The sample's class; 0 for a source with values.
  virtual int64_t label(int64_t index) const = 0;
  /// The number of values that each sample has as its target in place of a class; 0: classes.
  virtual int64_t num_values() const { return 0; }
  /// Names of the values, in order.
  virtual std::vector<std::string> value_names() const { return {}; }
  /// Writes the sample's num_values() values. Throws RunError as open() does.
  virtual void read_values(int64_t, std::span<float>) const {}
  /// The sample's name in error messages: its file, or the file and the position in the file.
  virtual std::string name(int64_t index) const = 0;
  /// Valid until `scratch` is used again. Throws RunError with the reason, without the name;
  /// RemoteError or UserError if a store fails, which says nothing about the sample.
  virtual StoredImage open(int64_t index, ReadScratch& scratch) const = 0;

  /// Whether the samples are coded image files. Otherwise they are pixels, and a copy of the set
  /// has to keep them unchanged.
  virtual bool has_image_files() const { return false; }
  /// Bytes of the file that all samples lie in, in pages; 0 for a set without pages.
  virtual uint64_t paged_bytes() const { return 0; }
  /// The page of that file that the sample lies in: samples of one page are cheap to read together.
  virtual int64_t page(int64_t) const { return 0; }
  /// Whether there is fetch() or bring(). Both take as long as the storage does.
  virtual Arrival arrival() const { return Arrival::in_memory; }
  /// Reads the sample's bytes for open(). room_for: called with the size before reading, unless
  /// empty. Throws as open() does, and RunError if there is no room.
  virtual FileStamp fetch(int64_t, std::vector<uint8_t>&, const RoomFor&) const { return {}; }
  /// The extent that open() reads of the sample, or the whole page that the sample lies in. nullopt
  /// where open() will throw.
  virtual std::optional<Extent> extent(int64_t, bool) const { return {}; }
  /// Returns when the bytes are in memory, or cannot be read: open() will report why.
  virtual void bring(const Extent&) const {}
  /// Whether bytes may still have to come over a network. Such a source is always read ahead,
  /// however quick earlier reads were.
  virtual bool is_remote() const { return false; }
  /// Tells a source with a bounded cache which samples the loader will want, until the returned
  /// object is destroyed. The forecast may be called on any thread.
  virtual std::shared_ptr<void> follow(Forecast) const { return nullptr; }
  /// Asks the system to drop the sample, or its whole page, from the page cache.
  virtual void forget(int64_t, bool) const {}
  /// The .beton file or the folder whose streams have keys, for which a loader keeps crop indices.
  /// Empty: no crop indices are kept.
  virtual std::filesystem::path indexed_path() const { return {}; }
  /// The version of a remote indexed_path().
  virtual std::optional<FileStamp> remote_stamp() const { return {}; }
};

/// source.label(index); a RunError for lost bytes names the sample.
int64_t label_of(const Source& source, int64_t index);

/// How many different labels the samples have.
int64_t count_labels(const Source& source);

/// Decodes no more than the request needs, into this number of channels. scale must be 1 for pixels
/// and for a stream that is not upright. Throws RunError with the reason.
ImagePart read_part(const StoredImage& image, const JpegRequest& request, int64_t channels,
                    ReadScratch& scratch);

/// Samples that a table lists.
class TableSource : public Source {
 public:
  int64_t size() const override { return table_->size(); }
  int64_t channels() const override { return channels_; }
  int64_t label(int64_t index) const override { return table_->label(index); }
  int64_t num_values() const override { return table_->num_values(); }
  std::vector<std::string> value_names() const override { return table_->value_names(); }
  void read_values(int64_t index, std::span<float> values) const override {
    table_->read_values(index, values);
  }
  /// The sample's path(), or its number where the table was lost: open() will report that.
  std::string name(int64_t index) const override;

 protected:
  /// root: prefix of the table's relative paths. channels: 3, or 1 to turn every image gray.
  TableSource(std::shared_ptr<const SampleTable> table, std::string root, int64_t channels)
      : table_(std::move(table)), root_(std::move(root)), channels_(channels) {}

  virtual std::string path(int64_t index) const = 0;

  const std::shared_ptr<const SampleTable> table_;
  const std::string root_;
  const int64_t channels_;
};

/// Image files, read when they are needed.
class FileSource : public TableSource {
 public:
  /// The whole files of a table. root: prefix of its relative paths. channels: 3, or 1 to turn
  /// every image gray.
  FileSource(std::shared_ptr<const SampleTable> table, std::string root, int64_t channels)
      : TableSource(std::move(table), std::move(root), channels) {}

  /// Class i of the table gets the label labels[i].
  void set_labels(std::vector<int32_t> labels) { labels_ = std::move(labels); }
  /// Crop indices are kept for the files, all of which lie below `folder`, the root.
  void index_below(const std::string& folder) { folder_ = folder; }
  /// The samples are the rows of this list, which errors then name.
  void are_rows_of(std::string list) { list_ = std::move(list); }

  int64_t label(int64_t index) const override {
    const int32_t label = table_->label(index);
    return labels_.empty() ? label : labels_[static_cast<size_t>(label)];
  }
  StoredImage open(int64_t index, ReadScratch& scratch) const override;
  bool has_image_files() const override { return true; }
  Arrival arrival() const override { return Arrival::by_sample; }
  FileStamp fetch(int64_t index, std::vector<uint8_t>& bytes,
                  const RoomFor& room_for) const override;
  void forget(int64_t index, bool whole_page) const override;
  std::filesystem::path indexed_path() const override { return folder_; }

 protected:
  std::string path(int64_t index) const override;

 private:
  std::vector<int32_t> labels_;
  std::string folder_, list_;
};

/// The given files; the class of each is its index. Throws UserError that names files that are
/// missing or not regular.
std::shared_ptr<Source> open_image_files(const std::vector<std::string>& files, int64_t channels);

/// Throws RunError if a file of this size is too large, or room_for, unless empty, has no room.
void check_file_size(uint64_t bytes, const RoomFor& room_for);

/// Reads the whole file. room_for: called with the size before reading, unless empty. Throws
/// RunError with the reason, without the name.
FileStamp read_file(const char* path, std::vector<uint8_t>& bytes, const RoomFor& room_for = {});

}  // namespace composer
