#include "cli/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <vector>

#include "base/error.h"
#include "base/params/value.h"
#include "base/text.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

/// The runs in `folder`, by name.
std::vector<std::string> runs_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (is_run(entry->path())) names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

bool is_run(const fs::path& folder) {
  std::error_code none;
  return std::ranges::any_of(
      std::initializer_list<const char*>{".lock", "hparams.yaml", "metrics.jsonl"},
      [&](const char* name) { return fs::exists(folder / name, none); });
}

void check_run_folder(const std::string& folder) {
  std::error_code none;
  const fs::path path = fs::path(folder + "/").parent_path();
  if (fs::is_directory(path, none)) {
    const auto names = is_run(path) ? std::vector<std::string>() : runs_in(path);
    if (names.empty()) return;
    throw UserError(folder + ": is no run's folder, but has those of " + first_few(names));
  }
  const auto beside = path.has_parent_path() ? path.parent_path() : fs::path("runs");
  const auto name = nearest(path.filename().string(), runs_in(beside));
  throw UserError(folder + ": is no run folder" +
                  (name.empty() ? "; that is <run_dir>/<run_name>, for instance runs/first"
                                : "; did you mean " + (beside / name).string() + "?"));
}

}  // namespace composer
