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

#include "data/image.h"

namespace composer {

class MappedFile;

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
  std::span<const uint8_t> bytes;
};

/// A file mapped into memory. Opening reads header and fields, and runs once over the table of
/// regions. Functions may be called by several threads at once; those about a row throw RunError
/// with the reason when what the row says is damaged or lies outside the file.
class BetonFile {
 public:
  /// Throws UserError naming the file when it is none of version 2, unfinished, cut off or damaged.
  explicit BetonFile(const std::filesystem::path& path);
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
  /// What the bytes of images and fields lie in: it tells of bytes that are lost.
  const MappedFile& mapping() const;
  /// The page that holds the row's data in this field: samples of one page lie together on the
  /// disk.
  uint64_t page(int64_t row, size_t field) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace composer
