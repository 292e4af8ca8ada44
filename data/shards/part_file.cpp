#include "data/shards/part_file.h"

#include <algorithm>
#include <utility>

#include "base/remote/cache_folder.h"
#include "base/text.h"
#include "data/index/index_file.h"
#include "data/shards/zstd_file.h"

namespace composer {

HashCheck::HashCheck(const FileHashes& hashes) {
  for (const auto& [algorithm, hash] : hashes)
    if (Digest::knows(algorithm))
      expected_.push_back({algorithm, lower_case(hash), Digest(algorithm)});
}

void HashCheck::update(std::span<const uint8_t> bytes) {
  for (auto& one : expected_) one.digest.update(bytes);
}

std::string HashCheck::problem() {
  std::string wrong;
  for (auto& one : expected_)
    if (wrong.empty() && one.digest.hex() != one.hash)
      wrong = "its " + one.algorithm + " is not the one in the index";
  return wrong;
}

std::string hash_problem(const std::string& file, const FileHashes& hashes,
                         const RemoteOptions& remote, const std::optional<PackedFile>& packed) {
  constexpr uint64_t kPiece = 8 << 20;
  HashCheck check(hashes);
  if (check.empty()) return {};
  const auto update = [&](PartReader& reader) {
    for (uint64_t at = 0; at < reader.bytes(); at += kPiece)
      check.update(reader.at(at, std::min(kPiece, reader.bytes() - at)));
    return true;
  };
  read_parts(file, update, remote, packed);
  return check.problem();
}

PartFile::PartFile(const std::string& path, const RemoteOptions& remote,
                   const std::optional<PackedFile>& packed) {
  if (is_remote(path)) {
    RemoteBytes bytes = bytes_at(RemotePath(path), remote);
    is_packed_ = packed.has_value();
    if (packed) bytes = unpacked_bytes(std::move(bytes), *packed);
    remote_ = CacheFolder::get(remote)->open(std::move(bytes));
    mapping_ = std::make_unique<const MappedFile>(remote_->file());
    version_ = static_cast<int64_t>(key_of(remote_->version()));
  } else {
    mapping_ = std::make_unique<const MappedFile>(path);
    version_ = stamp_of(path).time;
  }
}

std::span<const uint8_t> PartFile::read(uint64_t begin, uint64_t bytes,
                                        std::vector<uint8_t>& memory) const {
  if (!remote_) return mapping_->bytes().subspan(begin, bytes);
  if (memory.capacity() < bytes) memory.clear();  // nothing to copy
  memory.resize(bytes);
  remote_->read(begin, memory, mapping_->bytes().data());
  return memory;
}

std::span<const uint8_t> PartReader::at(uint64_t begin, uint64_t bytes) {
  constexpr uint64_t kWindow = 8 << 20, kBehind = 64 << 10;
  if (file_.remote() == nullptr) return file_.read(begin, bytes, window_);
  if (begin < begin_ || begin + bytes > begin_ + window_.size()) {
    const bool whole = file_.comes_whole();
    begin_ = whole ? 0 : begin - std::min(begin, kBehind);
    const uint64_t wanted = whole ? file_.bytes() : std::max(begin + bytes - begin_, kWindow);
    file_.read(begin_, std::min(wanted, file_.bytes() - begin_), window_);
  }
  return std::span<const uint8_t>(window_).subspan(begin - begin_, bytes);
}

}  // namespace composer
