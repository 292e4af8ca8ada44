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
  custom = 255,  ///< of the user's; its data cannot be read
};

struct BetonField {
  std::string name;
  BetonType type = BetonType::custom;
  uint64_t offset = 0;         ///< in the row
  std::vector<int64_t> shape;  ///< of array and tensor
  std::string dtype;           ///< of array and tensor, for instance "<f4"
};

/// An image as it is stored.
struct BetonImage {
  bool jpeg = false;  ///< else pixels: rows from the top, RGB, without gaps
  ImageSize size;
  std::span<const uint8_t> bytes;  ///< of a remote file only to hand to BetonFile::use
};

/// A file mapped into memory, or a remote one whose rows and tables are, and whose images come when
/// they are used. Opening reads header and fields, and runs once over the table of regions.
/// Functions may be called by several threads at once; those about a row throw RunError with the
/// reason when what the row says is damaged or lies outside the file.
class BetonFile {
 public:
  /// path: local or remote. Throws UserError naming the file when it is none of version 2,
  /// unfinished, cut off or damaged.
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
  /// Returns use(bytes), which reads the bytes of an image or field: where they lie, or as copied
  /// into `memory`. Throws RunError when they were lost meanwhile, whatever use() made of what
  /// stood there; RemoteError or UserError where they cannot be had.
  template <class Use>
  auto use(std::span<const uint8_t> stored, std::vector<uint8_t>& memory, Use&& use) const {
    if (remote() == nullptr) return mapping().use(stored, [&] { return use(stored); });
    read(stored, memory);
    return use(std::span<const uint8_t>(memory));
  }
  /// Of a remote file: copies the bytes of an image or field.
  void read(std::span<const uint8_t> stored, std::vector<uint8_t>& memory) const;
  /// What the bytes of images and fields lie in: it tells of bytes that are lost.
  const MappedFile& mapping() const;
  /// Null for a local file.
  RangeCache* remote() const;
  /// The page that holds the row's data in this field: samples of one page lie together on the
  /// disk.
  uint64_t page(int64_t row, size_t field) const;

 private:
  struct State;
  void open();
  std::unique_ptr<State> state_;
};

}  // namespace composer
