// Reads .beton files, FFCV's format (version 2): header, fields, a table of rows, pages of data,
// and a table of where each region of data lies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files/mapped_file.h"
#include "base/remote/remote_options.h"
#include "data/jpeg/decoder.h"
#include "data/pixels/image.h"

namespace composer {

class RangeCache;

enum class BetonType : uint8_t {
  real = 0,      ///< Float: a double
  integer = 1,   ///< Int: 64 bits
  image = 2,     ///< RGBImage
  bytes = 3,     ///< Bytes
  array = 4,     ///< NDArray
  json = 5,      ///< JSON: text and a 0
  tensor = 6,    ///< TorchTensor: as array
  custom = 255,  ///< a type of the user's own; its data cannot be read
};

struct BetonField {
  std::string name;
  BetonType type = BetonType::custom;
  uint64_t offset = 0;         ///< bytes from the row's beginning
  std::vector<int64_t> shape;  ///< shape of an array or tensor
  std::string dtype;           ///< type of an array's or tensor's numbers: "<f4"
};

/// An image as it is stored.
struct BetonImage {
  bool jpeg = false;  ///< false for pixels: rows from the top, RGB, without gaps
  ImageSize size;
  std::span<const uint8_t> bytes;  ///< a remote file's have no data; pass them to BetonFile::use
};

/// A file mapped into memory, or a remote one: its rows and tables are mapped, its images are
/// fetched when they are used. Opening reads header and fields, and runs once over the table of
/// regions. Functions may be called by several threads at once; functions about a row throw
/// RunError with the reason when the row is damaged or points outside the file.
class BetonFile {
 public:
  /// path: local or remote. Throws UserError naming the file when it is no .beton file of version
  /// 2, unfinished, cut off or damaged.
  explicit BetonFile(const std::filesystem::path& path, const RemoteOptions& remote = {});
  explicit BetonFile(std::shared_ptr<RangeCache> remote);
  ~BetonFile();

  const std::filesystem::path& path() const;
  uint64_t file_bytes() const;
  uint64_t page_size() const;
  int64_t samples() const;
  int64_t regions() const;  ///< entries of the allocation table
  const std::vector<BetonField>& fields() const;
  /// Index of the first field of this type (and name); nothing when there is none.
  std::optional<size_t> find_field(BetonType type, const std::string& name = "") const;

  BetonImage image(int64_t row, size_t field) const;
  int64_t integer(int64_t row, size_t field) const;
  double real(int64_t row, size_t field) const;
  /// The bytes of a bytes, json (without its 0), array or tensor field.
  std::span<const uint8_t> bytes(int64_t row, size_t field) const;
  /// Returns use(bytes), which reads the bytes of an image or field: in the mapping, or copied into
  /// `memory`. Throws RunError when the bytes were lost meanwhile, whatever use() made of them;
  /// RemoteError or UserError if they cannot be fetched.
  template <class Use>
  auto use(std::span<const uint8_t> stored, std::vector<uint8_t>& memory, Use&& use) const {
    if (remote() == nullptr) return mapping().use(stored, [&] { return use(stored); });
    read(stored, memory);
    return use(std::span<const uint8_t>(memory));
  }
  /// Copies the bytes of an image or field; for remote files.
  void read(std::span<const uint8_t> stored, std::vector<uint8_t>& memory) const;
  /// The mapping that holds the bytes of images and fields, and knows whether bytes were lost.
  const MappedFile& mapping() const;
  /// Null for a local file.
  RangeCache* remote() const;
  /// The page with the row's data in this field: samples of one page lie together on the disk.
  uint64_t page(int64_t row, size_t field) const;

 private:
  struct State;
  void open();
  std::unique_ptr<State> state_;
};

/// The whole image, RGB; with Dct::fast byte for byte what FFCV decodes. Valid until the decoder's
/// next call and as long as the file is open. Throws RunError with the reason, also when the stored
/// stream has another size than the file says. warnings: as decode_jpeg.
ImageView decode_whole(const BetonImage& image, Dct dct, JpegDecoder& decoder,
                       std::string* warnings = nullptr);

}  // namespace composer
