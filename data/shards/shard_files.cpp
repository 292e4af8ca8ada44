#include "data/shards/shard_files.h"

#include <cstdio>
#include <utility>

#include "base/remote/cache_folder.h"
#include "base/remote/object_store.h"
#include "base/several_threads.h"
#include "base/text.h"
#include "data/index/index_file.h"
#include "data/index/index_location.h"
#include "data/samples/sample_table.h"
#include "data/shards/zstd_file.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNames = 1'000'000;

/// The names that the text between braces stands for; empty where it is neither a range nor a list.
std::vector<std::string> alternatives(std::string_view inside) {
  std::vector<std::string> all;
  const size_t dots = inside.find("..");
  if (dots != std::string_view::npos) {
    const auto first = to_number<int64_t>(inside.substr(0, dots)),
               last = to_number<int64_t>(inside.substr(dots + 2));
    if (!first || !last || *first < 0 || *last < *first ||
        *last - *first >= static_cast<int64_t>(kMostNames))
      return {};
    for (int64_t i = *first; i <= *last; ++i) {
      const std::string digits = std::to_string(i);
      all.push_back(std::string(dots > digits.size() ? dots - digits.size() : 0, '0') + digits);
    }
    return all;
  }
  if (inside.find(',') == std::string_view::npos) return {};
  for (;;) {
    const size_t comma = inside.find(',');
    all.emplace_back(inside.substr(0, comma));
    if (comma == std::string_view::npos) return all;
    inside.remove_prefix(comma + 1);
  }
}

void expand(const std::string& text, std::vector<std::string>& names) {
  const size_t open = text.find('{'), close = text.find('}', open);
  if (open == std::string::npos) {
    names.push_back(text);
    if (names.size() > kMostNames) throw UserError("'" + text + "': stands for too many files");
    return;
  }
  std::vector<std::string> all;
  if (close != std::string::npos)
    all = alternatives(std::string_view(text).substr(open + 1, close - open - 1));
  if (all.empty())
    throw UserError("'" + text + "': braces hold a range as in {000..146}, or a list as in {a,b}");
  for (const auto& one : all) expand(text.substr(0, open) + one + text.substr(close + 1), names);
}

UserError missing_files(const std::string& key, std::vector<std::string> missing) {
  const bool one = missing.size() == 1;
  return UserError(key + ": there " + (one ? "is no file " : "are no files ") +
                   first_few(std::move(missing)));
}

ShardFiles remote_shards(std::vector<std::string> addresses, const std::string& key,
                         const RemoteOptions& remote) {
  const std::string first = RemotePath(addresses[0]).text();
  ShardFiles files{.root = first.substr(0, first.rfind('/') + 1), .names = {}, .remote = remote};
  std::map<std::string, std::string> named;
  for (const auto& address : addresses) {
    const std::string name = RemotePath(address).identity();
    if (named.emplace(name, address).first->second != address)
      throw UserError(key + ": two addresses of " + shown_path(address) +
                      " differ only in what counts as a signature: they would be one file");
    files.names.push_back(name.starts_with(files.root) ? name.substr(files.root.size()) : name);
  }
  files.addresses = std::move(addresses);
  find_remote(files, key);
  return files;
}

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

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

std::string ShardFiles::path(size_t i) const { return addresses.empty() ? shown(i) : addresses[i]; }

std::string ShardFiles::shown(size_t i) const { return path_in(root, names[i]); }

std::string path_in(const std::string& root, const std::string& path) {
  return is_remote(path) ? path : absolute_path(root, path);
}

std::string path_below(const std::string& folder, const std::string& name) {
  return is_remote(folder) ? address_of(RemotePath(folder) / name)
                           : (fs::path(folder) / name).string();
}

void find_remote(ShardFiles& files, const std::string& key) {
  std::vector<std::string> versions(files.names.size());
  std::vector<std::string> missing;
  std::mutex lock;
  in_several_threads(versions.size(), [&](uint64_t i) {
    const RemotePath path(files.path(i));
    const auto object = open_store(path, files.remote)->stat(path.key());
    if (object) {
      versions[i] = object->etag + ' ' + std::to_string(object->bytes);
      return;
    }
    const std::lock_guard guard(lock);
    missing.push_back(path.text());
  });
  std::sort(missing.begin(), missing.end());
  if (!missing.empty()) throw missing_files(key, std::move(missing));
  files.versions = std::move(versions);
}

std::vector<std::string> expanded_names(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find("::", begin), text.size());
    expand(text.substr(begin, end - begin), names);
    begin = end + 2;
  }
  return names;
}

ShardFiles named_shards(const std::string& text, const std::string& folder, const std::string& key,
                        const RemoteOptions& remote) {
  const auto names = expanded_names(text);
  if (is_remote(names[0]) || is_remote(folder)) {
    std::vector<std::string> addresses;
    for (const auto& name : names)
      addresses.push_back(is_remote(name) ? name : address_below(folder, name));
    return remote_shards(std::move(addresses), key, remote);
  }
  ShardFiles files;
  std::vector<std::string> missing;
  for (const auto& name : names) {
    const fs::path path = fs::absolute(fs::path(folder) / name).lexically_normal();
    std::error_code error;
    if (!fs::is_regular_file(path, error)) missing.push_back(path.string());
    if (files.names.empty()) files.root = (path.parent_path() / "").string();
    files.names.push_back(path.parent_path() / "" == fs::path(files.root) ? path.filename().string()
                                                                          : path.string());
  }
  if (!missing.empty()) throw missing_files(key, std::move(missing));
  return files;
}

ShardFiles shards_in(const fs::path& folder, const std::string& ending,
                     const RemoteOptions& remote) {
  if (is_remote(folder.string())) {
    const RemotePath root = RemotePath(folder.string()) / "";
    ShardFiles files{.root = root.text(), .names = {}, .remote = remote};
    for (const auto& key : open_store(root, remote)->list_folder(root.key())) {
      const std::string name = key.substr(key.rfind('/') + 1);
      if (name.starts_with('.') || !name.ends_with(ending)) continue;
      files.names.push_back(name);
      files.addresses.push_back(address_of(root.with_key(key)));
    }
    if (!files.names.empty()) find_remote(files, "datadir");
    return files;
  }
  ShardFiles files{path_below(folder.string(), ""), {}};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && name.ends_with(ending) && entry.is_regular_file(error))
      files.names.push_back(name);
  }
  std::sort(files.names.begin(), files.names.end());
  return files;
}

std::string compressed_tars_hint(const fs::path& folder) {
  if (is_remote(folder.string())) return {};
  for (const char* ending : {".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"})
    if (const auto files = shards_in(folder, ending); !files.names.empty())
      return "; " + files.names[0] + " is compressed: unpack it, tar files are read by ranges";
  return {};
}

fs::path shard_table_file(const ShardFiles& files, const std::string& about,
                          const std::string& index_dir) {
  std::string all = about + joined(files.versions, "\n");
  for (const auto& name : files.names) all += '\n' + name;
  return cache_file_of(files.root.empty() ? "/" : files.root, index_dir,
                       "-" + hexadecimal(key_of(all)) + ".table");
}

void throw_problems(std::vector<std::string> problems, const std::string& things) {
  constexpr size_t kMost = 10;
  if (problems.empty()) return;
  const size_t more = problems.size() - std::min(problems.size(), kMost);
  problems.resize(problems.size() - more);
  if (more > 0) problems.push_back("and " + std::to_string(more) + " more such " + things);
  throw UserError(std::move(problems));
}

}  // namespace composer
