// Files whose parts are samples, on a disk or in a store.
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

/// A mapped file, or an object of a store, which the machine's cache keeps. Functions may be called
/// by several threads at once.
class PartFile {
 public:
  /// path: local or remote. packed: set for a compressed remote file, whose bytes are the unpacked
  /// ones; each machine unpacks it once. Throws UserError naming a file that cannot be opened.
  explicit PartFile(const std::string& path, const RemoteOptions& remote = {},
                    const std::optional<PackedFile>& packed = std::nullopt);

  uint64_t bytes() const { return mapping_->bytes().size(); }
  /// Differs after a change of the file; for a local file its time, ns since 1970.
  int64_t version() const { return version_; }
  /// The mapping of a remote file has zeros for bytes that were not fetched yet.
  const MappedFile& mapping() const { return *mapping_; }
  /// Null for a local file.
  RangeCache* remote() const { return remote_.get(); }
  /// Whether reading any byte now fetches and unpacks the whole file.
  bool comes_whole() const { return is_packed_ && !remote_->is_whole(); }

  /// The bytes, which must lie within the file: mapped, or copied into `memory`. Throws RemoteError
  /// or UserError where a store does not give them, DamagedFile where the object that is unpacked
  /// for them does not match its hashes.
  std::span<const uint8_t> read(uint64_t begin, uint64_t bytes, std::vector<uint8_t>& memory) const;
  /// Returns use(), which reads the result of read(). Throws RunError where bytes were lost
  /// meanwhile.
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

/// Reads a file from start to end; a remote one 8 MiB at a time, or whole where it comes_whole().
class PartReader {
 public:
  explicit PartReader(const PartFile& file) : file_(file) {}

  uint64_t bytes() const { return file_.bytes(); }
  /// Bytes within the file, valid until the next call.
  std::span<const uint8_t> at(uint64_t begin, uint64_t bytes);

 private:
  const PartFile& file_;
  uint64_t begin_ = 0;
  std::vector<uint8_t> window_;
};

/// Returns read(PartReader&) of the file. packed: as of PartFile. Throws UserError with the path
/// for a FormatError, and as MappedFile::use_all() does where bytes were lost.
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
