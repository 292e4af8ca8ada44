// Files that samples are parts of, on a disk or in a store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/files/byte_reader.h"
#include "base/files/mapped_file.h"
#include "base/remote/range_cache.h"
#include "base/remote/remote_options.h"
#include "base/remote/remote_path.h"
#include "data/shards/file_hashes.h"

namespace composer {

/// A file that is mapped, or an object of a store, which is kept in the machine's cache. Functions
/// may be called by several threads at once.
class PartFile {
 public:
  /// path: local or remote. packed: a remote one is compressed so, and its bytes are what it holds,
  /// which is unpacked once a machine. Throws UserError naming it where it cannot be opened.
  explicit PartFile(const std::string& path, const RemoteOptions& remote = {},
                    const std::optional<PackedFile>& packed = std::nullopt);

  uint64_t bytes() const { return mapping_->bytes().size(); }
  /// Another one where the file has changed: of a local one the time, ns since 1970.
  int64_t version() const { return version_; }
  /// Of a remote file it has what came so far, and zeros elsewhere.
  const MappedFile& mapping() const { return *mapping_; }
  /// Null for a local file.
  RangeCache* remote() const { return remote_.get(); }
  /// Whether all bytes are fetched and unpacked now for any of them.
  bool comes_whole() const { return is_packed_ && !remote_->is_whole(); }

  /// The bytes, which must lie within the file: where they are mapped, or copied into `memory`.
  /// Throws RemoteError or UserError where a store does not give them, DamagedFile where an object
  /// that is unpacked for them holds others than it should.
  std::span<const uint8_t> read(uint64_t begin, uint64_t bytes, std::vector<uint8_t>& memory) const;
  /// Returns use(), which reads what read() gave. Throws RunError where it was lost meanwhile.
  template <class Use>
  auto use(std::span<const uint8_t> given, Use&& use) const {
    return remote_ ? use() : mapping_->use(given, use);
  }

 private:
  std::shared_ptr<RangeCache> remote_;
  std::unique_ptr<const MappedFile> mapping_;
  int64_t version_ = 0;
  bool is_packed_ = false;
};

/// A file from its start to its end: of a remote one it reads 8 MiB at a time, or all that comes at
/// once.
class PartReader {
 public:
  explicit PartReader(const PartFile& file) : file_(file) {}

  uint64_t bytes() const { return file_.bytes(); }
  /// Bytes within the file, until the next call.
  std::span<const uint8_t> at(uint64_t begin, uint64_t bytes);

 private:
  const PartFile& file_;
  uint64_t begin_ = 0;
  std::vector<uint8_t> window_;
};

/// Returns read(PartReader&) of the file; packed: as of PartFile. Throws UserError with its path
/// for a FormatError, and as MappedFile::use_all where bytes were lost.
template <class Read>
auto read_parts(const std::string& path, const Read& read, const RemoteOptions& remote = {},
                const std::optional<PackedFile>& packed = std::nullopt) {
  const PartFile file(path, remote, packed);
  PartReader reader(file);
  try {
    if (file.remote() != nullptr) return read(reader);
    return file.mapping().use_all([&](auto) { return read(reader); });
  } catch (const FormatError& error) {
    throw UserError(shown_path(path) + ": " + error.what());
  }
}

}  // namespace composer
