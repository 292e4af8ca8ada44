// The files of a set of shards: which they are, their parts, and their check against hashes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
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
#include "data/files/digest.h"

namespace composer {

/// A file is missing, or its bytes do not match its index.
class DamagedFile : public WrongBytes {
 public:
  using WrongBytes::WrongBytes;
};

/// Hashes of a file's bytes, in hexadecimal, by the names of algorithms in Python's hashlib.
using FileHashes = std::map<std::string, std::string>;

/// The index entry of a file that is compressed by zstd.
struct PackedFile {
  FileHashes packed_hashes{};  ///< hashes of the compressed file
  uint64_t bytes = 0;          ///< unpacked size
  FileHashes hashes{};         ///< hashes of the unpacked bytes
};

/// Ignores hashes by algorithms that Digest does not know (xxh3_64).
class HashCheck {
 public:
  explicit HashCheck(const FileHashes& hashes);

  /// Whether there is no hash to check.
  bool empty() const { return expected_.empty(); }
  void update(std::span<const uint8_t> bytes);
  /// The result for the whole file: "its sha1 is not the one in the index", or empty for a match.
  std::string problem();

 private:
  struct Expected {
    std::string algorithm, hash;
    Digest digest;
  };
  std::vector<Expected> expected_;
};

/// HashCheck::problem() of a whole file, local or remote, which is read only where there is a hash
/// to check. packed: set for a compressed remote file, whose hashes are of the unpacked bytes.
/// Throws UserError naming a file that cannot be read, RemoteError and DamagedFile as
/// PartFile::read() does.
std::string hash_problem(const std::string& file, const FileHashes& hashes,
                         const RemoteOptions& remote = {},
                         const std::optional<PackedFile>& packed = std::nullopt);

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
  /// or UserError if a store does not give them, DamagedFile if the object that is unpacked
  /// for them does not match its hashes.
  std::span<const uint8_t> read(uint64_t begin, uint64_t bytes, std::vector<uint8_t>& memory) const;
  /// Returns use(), which reads the result of read(). Throws RunError if bytes were lost
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

/// Returns read(PartReader&) of the file. packed: see PartFile. Throws UserError with the path
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

/// Files of one folder, or of several. Root and names of remote files contain no secrets: they
/// appear in messages and in kept tables.
struct ShardFiles {
  std::string root;                      ///< a folder with its '/', or ""; may be remote
  std::vector<std::string> names;        ///< below the root, or absolute
  std::vector<std::string> versions{};   ///< versions of remote files, as RemoteBytes::version
  std::vector<std::string> addresses{};  ///< addresses of remote files, with their signatures
  /// For remote files: how a compressed file is unpacked. Empty: no file is compressed.
  std::vector<std::optional<PackedFile>> packed{};
  RemoteOptions remote{};  ///< how their store is reached

  /// The path or address to open the file by.
  std::string path(size_t i) const;
  /// The path of the file for messages.
  std::string shown(size_t i) const;
};

/// Expands braces: "a-{000..146}.tar" gives a-000.tar to a-146.tar, "{x,y}.tar" gives x.tar and
/// y.tar; "::" separates several patterns. Throws UserError for braces with neither a range nor a
/// list, and for more than a million names.
std::vector<std::string> expanded_names(const std::string& text);

/// The files that `text` (expanded_names) names, in order. Relative names lie below `folder`, or
/// where that is empty below the current folder. Both may be remote. Throws UserError, which names
/// `key`, listing missing files.
ShardFiles named_shards(const std::string& text, const std::string& folder, const std::string& key,
                        const RemoteOptions& remote = {});

/// Looks up all files in their store, many at once, and sets their versions. Throws UserError,
/// which names `key`, listing missing files.
void find_remote(ShardFiles& files, const std::string& key);

/// The path or address of `name` below a folder, which may be remote. name: plain text, with '/'.
std::string path_below(const std::string& folder, const std::string& name);

/// The files of the folder with this ending, sorted by name, without hidden files; may be empty.
/// The folder may be remote.
ShardFiles shards_in(const std::filesystem::path& folder, const std::string& ending,
                     const RemoteOptions& remote = {});

/// The end of a message about a local folder without tar files: what to do with the compressed tar
/// files that it has; else empty.
std::string compressed_tars_hint(const std::filesystem::path& folder);

/// The path of the kept table of the files. about: other things that the table depends on.
std::filesystem::path shard_table_file(const ShardFiles& files, const std::string& about,
                                       const std::string& index_dir);

/// Throws the problems, unless there are none, as a UserError with at most ten of them. things:
/// what the others are called.
void throw_problems(std::vector<std::string> problems, const std::string& things);

/// The path itself where it is absolute or remote, else the path below root, which ends with '/'.
std::string path_in(const std::string& root, const std::string& path);

}  // namespace composer
