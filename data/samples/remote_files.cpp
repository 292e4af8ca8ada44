#include "data/samples/remote_files.h"

#include <algorithm>

#include "data/index/index_file.h"

namespace composer {
namespace {

using ChosenFiles = std::vector<RemoteFileSource::Chosen>;

/// The prefix of the files' paths: the folder, where all files lie in it.
std::string root_of(const Listing& listing, const ChosenFiles& chosen, const std::string& folder) {
  const bool below = std::ranges::all_of(chosen, [&](const auto& one) {
    return (listing.folder + listing.files[one.file].name).starts_with(folder);
  });
  return below ? folder : listing.folder;
}

std::shared_ptr<const SampleTable> table_of(const Listing& listing, const ChosenFiles& chosen,
                                            const std::string& root) {
  SampleTableWriter writer;
  for (const auto& [file, label] : chosen)
    writer.add_file((listing.folder + listing.files[file].name).substr(root.size()),
                    static_cast<int32_t>(label));
  return std::make_shared<const SampleTable>(writer.bytes());
}

}  // namespace

RemoteFileSource::RemoteFileSource(std::shared_ptr<ObjectStore> store, CacheFolder& cache,
                                   const Listing& listing, const std::vector<Chosen>& chosen,
                                   const std::string& folder, int64_t channels,
                                   const std::string& name)
    : FileSource(table_of(listing, chosen, root_of(listing, chosen, folder)),
                 root_of(listing, chosen, folder), channels) {
  std::vector<ObjectInfo> objects;
  for (const auto& choice : chosen) {
    const ListedFile& one = listing.files[choice.file];
    objects.push_back(one.object);
    versions_.push_back(static_cast<int64_t>(key_of(one.object.etag)));
  }
  index_below(folder);
  RemoteBytes remote = bytes_of(std::move(store), name.empty() ? folder : name, objects);
  bounds_ = remote.bounds;
  cache_ = cache.open(std::move(remote));
}

FileStamp RemoteFileSource::fetch(int64_t index, std::vector<uint8_t>& bytes,
                                  const RoomFor& room_for) const {
  const auto block = static_cast<uint64_t>(index);
  const uint64_t begin = bounds_.begin(block), size = bounds_.end(block) - begin;
  check_file_size(size, room_for);
  if (bytes.capacity() < size) bytes.clear();  // nothing to copy
  bytes.resize(size);
  cache_->read(begin, bytes);
  return {size, versions_[static_cast<size_t>(index)]};
}

std::shared_ptr<void> RemoteFileSource::follow(Forecast forecast) const {
  return cache_->follow([this, forecast = std::move(forecast)](const Want& want) {
    uint32_t number = 0;
    forecast([&](int64_t sample) {
      const auto block = static_cast<uint64_t>(sample);
      want(*cache_, bounds_.begin(block), bounds_.end(block), number++);
    });
  });
}

std::shared_ptr<FileSource> open_remote_files(const std::vector<std::string>& paths,
                                              int64_t channels, const RemoteOptions& remote) {
  const RemotePath first(paths.at(0));
  auto store = open_store(first, remote);
  const Listing listing = list_named(*store, paths);
  std::vector<RemoteFileSource::Chosen> chosen;
  for (size_t i = 0; i < paths.size(); ++i) chosen.push_back({i, static_cast<int64_t>(i)});
  std::string all;  // each choice of files has a cache of its own
  for (const auto& path : paths) all += RemotePath(path).identity() + "\n";
  return std::make_shared<RemoteFileSource>(
      std::move(store), *CacheFolder::get(remote), listing, chosen, listing.folder, channels,
      listing.folder + "files " + std::to_string(key_of(all)));
}

}  // namespace composer
