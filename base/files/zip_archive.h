// Reads zip archives that store their files uncompressed, as PyTorch's do; zip64 too. Nothing is
// inflated, and only the files that are asked for are read: LibTorch's PyTorchStreamReader inflates
// the record `version` to any size that it claims, so that a file of 3 MB can take all memory.
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
  /// bytes: the whole archive; must outlive this object. Throws FormatError.
  explicit ZipArchive(std::span<const uint8_t> bytes);

  /// The content of a file, as a view of the archive; nothing when no file has the name. Throws
  /// FormatError when the file is compressed, encrypted or not wholly inside the archive.
  std::optional<std::span<const uint8_t>> find(std::string_view name) const;

  /// The first name, in alphabetical order, that ends with `ending`; nothing without one.
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
