#include "data/datasets/photo_dataset.h"

#include "base/log.h"
#include "base/remote/object_store.h"
#include "base/text.h"
#include "data/datasets/dataset_params.h"
#include "data/shards/shard_files.h"

namespace composer {

namespace fs = std::filesystem;

fs::path part_folder(const std::string& datadir, bool is_train, const std::string& expected) {
  const fs::path folder = checked_datadir(datadir, expected);
  std::error_code error;
  const fs::path wanted = folder / (is_train ? "train" : "val");
  if (fs::is_directory(wanted, error)) return wanted;
  if (fs::is_directory(folder / (is_train ? "val" : "train"), error))
    throw missing_part(datadir, is_train, expected);
  return folder;
}

namespace {

/// Warns once of each refusal.
void warn_of_refusal(const std::string& refusal, const std::string& instead) {
  static std::mutex lock;
  static std::set<std::string> warned;
  const std::lock_guard guard(lock);
  if (warned.insert(refusal).second)
    log::warn(refusal + "; taken for missing, as stores that may not be listed answer so: " +
              shown_path(instead) + " is read in its place");
}

}  // namespace

std::string remote_part(const std::string& datadir, bool is_train, const std::string& file,
                        const RemoteOptions& remote) {
  const std::string part = path_below(datadir, is_train ? "train" : "val");
  if (!file.empty()) {
    const auto has_file = [&](const std::string& folder) {
      const RemotePath path(path_below(folder, file));
      return open_store(path, remote)->stat(path.key()).has_value();
    };
    try {
      return has_file(part) ? part : datadir;
    } catch (const UserError& refusal) {
      try {  // some stores refuse (403) what they do not have
        if (has_file(datadir)) {
          warn_of_refusal(refusal.what(), path_below(datadir, file));
          return datadir;
        }
      } catch (const UserError&) {
      }
      throw;
    }
  }
  const RemotePath path = RemotePath(part) / "";
  return open_store(path, remote)->list_folder(path.key()).empty() ? datadir : part;
}

std::string targets_text(const std::vector<std::string>& targets) {
  return targets.empty() ? "" : "\ntargets " + joined(targets, "\n");
}

std::string check_targets(const FolderParams& params, const std::string& label,
                          const std::string& classes) {
  if (params.ffcv.targets.empty() || params.ffcv.use_ffcv) return {};
  std::string problems;
  if (label != "auto") problems += "label: has no meaning with targets, which take its place\n";
  if (!classes.empty()) problems += "classes: has no meaning with targets\n";
  return problems;
}

OpenedSet opened_set(std::shared_ptr<Source> source, std::vector<std::string> class_names) {
  auto classes = std::ssize(class_names);
  const bool counts = class_names.empty() && source->num_values() == 0;
  for (int64_t i = 0; counts && i < source->size(); ++i)
    classes = std::max(classes, label_of(*source, i) + 1);
  return {std::move(source), classes, std::move(class_names)};
}

}  // namespace composer
