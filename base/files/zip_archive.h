// The files in a zip archive that stores them uncompressed, as PyTorch's do. zip64 included.
// Nothing is inflated, and nothing read that is not asked for: LibTorch's PyTorchStreamReader
// inflates the record `version` to whatever size it claims, so that a file of 3 MB takes all memory
// there.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/files/byte_reader.h"

namespace composer {

class ZipArchive {
 public:
  /// bytes: the whole archive, which must outlive this object. Throws FormatError.
  explicit ZipArchive(std::span<const uint8_t> bytes);

  /// The content of a file, a view of the archive; nothing when there is none of that name. Throws
  /// FormatError when it is compressed, encrypted or not wholly inside the archive.
  std::optional<std::span<const uint8_t>> find(std::string_view name) const;

  /// The first name, in alphabetical order, that ends with `ending`; nothing when there is none.
  std::optional<std::string> find_name(std::string_view ending) const;

 private:
  struct Entry {
    uint16_t flags, method;
    uint64_t size, stored_size, header;
  };

  void read_directory(ByteReader directory, uint64_t count);

  std::span<const uint8_t> bytes_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace composer
